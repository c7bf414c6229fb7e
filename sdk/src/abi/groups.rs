//! The optional groups of hooks. A group is all present or all absent; a released group is frozen.

use core::ffi::c_void;

use abi_stable::StableAbi;

use super::{
    Address, AdoptFlags, EventHandle, FillArgs, HostFunction, MemoryKind, MemoryUsage,
    PluginHandle, RawError, Status, StreamHandle, StridedArgs,
};

/// Streams of others.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct WrapHooks {
    /// Makes a stream of the integer that the vendor's API uses.
    ///
    /// A number that names a default stream there (0 and 1 of CUDA and of HIP) gives one more handle of
    /// that stream, for which `stream_native` gives one integer whatever it was wrapped by. One that
    /// names another stream on each thread (2 of both) is resolved by the calling thread: the handle is
    /// of that thread's stream, whichever thread uses it; where the vendor reaches that from its own
    /// thread alone, it is `UNSUPPORTED`. Callers vouch for no number below 4096, where no object lies. A
    /// number that can be no stream, as 0 of OpenCL, is `INVALID`, and is not followed as an address.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    the stream stays the caller's; the plugin never destroys it and may retain it. The
    ///          handle ends with `stream_destroy`, once for each call.
    /// Errors:  `INVALID` for a number that can be no stream, and when it belongs to another device and
    ///          the vendor can say so; `UNSUPPORTED`.
    /// Since:   table 1.0.
    pub stream_wrap: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            native: u64,
            out: *mut StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Events that the host completes, so that two vendors chain without a blocked thread.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HostEventHooks {
    /// Creates an event that is pending until `event_complete`.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    the caller owns the event until `event_destroy`. That call, and `close`, complete an
    ///          event that is still pending with a failure.
    /// Errors:  `VENDOR`.
    /// Since:   table 1.0.
    pub event_create_host: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            out: *mut EventHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Completes such an event, with `OK` or a failure that its waiters then see: `VENDOR`,
    /// `DEVICE_LOST` and `OOM_DEVICE` as they are, every other status as `VENDOR`.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    borrows the event.
    /// Errors:  `INVALID` for another kind of event or a second completion. After any other failure
    ///          the event is still pending, and may be completed again.
    /// Since:   table 1.0.
    pub event_complete: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            event: EventHandle,
            status: Status,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Host functions on a stream.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HostCallHooks {
    /// Runs `function(word)` when the stream reaches it. The function is the host's: it is short, waits for
    /// nothing, and calls neither hooks nor the vendor. So it may run inside of a callback of the driver's; who
    /// calls it holds no lock that a hook takes.
    ///
    /// A driver that drops functions behind failed work, or with a lost device, leaves them to the
    /// plugin, which runs them itself. Where the device says `Capabilities::POLLED_HOST_CALLS`, that may
    /// be as late as in the next `stream_query` of that stream.
    ///
    /// Threads: any; one call at a time for one stream. `function` runs on any thread, of the vendor's or of
    ///          the plugin's own.
    /// Blocks:  no.
    /// Owns:    `word` is the caller's; `function` runs exactly once, also behind work that failed.
    /// Errors:  `UNSUPPORTED`. After any error of this call `function` is never called.
    /// Since:   table 1.0.
    pub stream_host_call: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            function: HostFunction,
            word: *mut c_void,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Times between events.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct TimingHooks {
    /// Nanoseconds from one event to another, both done. Called for any two live events of the plugin when a
    /// program asks for the time: pending ones, those of two devices, and those that the host completes too.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    borrows both.
    /// Errors:  `INVALID` when one was never recorded, `end` happened before `start`, or the plugin has no
    ///          time between the two; else `NOT_READY` before both happened.
    /// Since:   table 1.0.
    pub event_elapsed: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            start: EventHandle,
            end: EventHandle,
            out: *mut u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Strided copies.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct StridedHooks {
    /// Copies an n-dimensional region in stream order, or at once without a stream.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  without a stream; with one only where the vendor refuses a call in the middle of the work.
    /// Owns:    borrows `args` for the call and both memories until the work is done.
    /// Errors:  `UNSUPPORTED` for a pattern it cannot make: nothing was changed. `INVALID` and
    ///          `NOT_OWNER` as `copy` answers them, and `INVALID` too where a side reaches before the
    ///          beginning. The host asks for none whose sides overlap.
    /// Since:   table 1.0.
    pub copy_strided: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            args: *const StridedArgs,
            stream: StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Fills.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct FillHooks {
    /// Repeats a pattern over a range in stream order, or at once without a stream.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  without a stream; with one only where the vendor refuses a call in the middle of the work.
    /// Owns:    borrows `args` for the call and the memory until the work is done.
    /// Errors:  `UNSUPPORTED`; `INVALID` for a pattern length other than 1, 2, 4, 8, 16. `INVALID` and
    ///          `NOT_OWNER` for its range as `copy` answers them.
    /// Since:   table 1.0.
    pub fill: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            args: *const FillArgs,
            stream: StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Host memory of others, locked for a device.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct RegisterHooks {
    /// Locks `size` bytes of host memory for the device, so that copies between the two are fast and, on a
    /// stream, leave the calling thread free. They name the memory as `copy` names other host memory, all of it
    /// or a part: `MemoryKind::HOST`. A query may answer for it, `MemoryKind::HOST` or `MemoryKind::PINNED`, with
    /// `XD_POINTER_FOREIGN`.
    ///
    /// Where the vendor locks for all its devices at once, the lock serves the plugin's others too. The host locks
    /// its own memory once for a plugin.
    ///
    /// Its pages may be read-only: the device then only reads the memory, and no work writes it.
    ///
    /// Threads: any.
    /// Blocks:  may.
    /// Owns:    the memory stays the caller's and outlives the registration.
    /// Errors:  `CONFLICT` when it overlaps an earlier registration for the device, or memory that the plugin
    ///          allocated; `PERMISSION` where the system or the vendor does not lock it, as pages that are
    ///          read-only; `OOM_HOST`.
    /// Since:   table 1.0.
    pub register_host: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            pointer: *mut c_void,
            size: u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Undoes `register_host`. Adopted memory stays adopted. The host may call this while work that uses the
    /// memory is in flight, because another thread can submit work at any time. While such work needs the memory
    /// locked, the hook returns `NOT_READY`: the memory stays registered, and the host calls again later. A
    /// plugin that cannot query that work blocks until it is over, which delays other releases of the plugin.
    ///
    /// Nobody can tell whether work of a lost device is over. So this fails for a lost device, and for another
    /// one where a lost one locked the memory or may still work with it: it stays registered, and the caller
    /// keeps it for good. Other devices can register it all the same.
    ///
    /// Threads: any.
    /// Blocks:  may: for work on this memory, never for other work.
    /// Owns:    nothing afterwards.
    /// Errors:  `NOT_OWNER` when it was not registered; `NOT_READY` while work needs the lock; `DEVICE_LOST`.
    /// Since:   table 1.0.
    pub unregister_host: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            pointer: *mut c_void,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Memory of others that becomes device memory without a copy.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct AdoptHooks {
    /// Gives device memory that aliases `size` bytes at `foreign`: host memory
    /// (`MemoryKind::HOST`, form pointer) or the vendor's own memory object (`MemoryKind::DEVICE`,
    /// form handle), for which the caller vouches. `flags` are `AdoptFlags`; the vendor's own object has
    /// none.
    ///
    /// What it gives may be the host's own address. A query then answers for that as device memory with
    /// `XD_POINTER_FOREIGN`, unless the plugin knew the memory before, and the host still takes it for host
    /// memory. `free` refuses it: its owner frees it, once `release_adopted` has ended each adoption.
    ///
    /// Threads: any.
    /// Blocks:  may.
    /// Owns:    the memory stays the owner's and outlives the adoption; the plugin may retain it.
    /// Errors:  `UNSUPPORTED` when the device cannot reach it: nothing was changed.
    /// Since:   table 1.0.
    pub adopt: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            foreign: *const Address,
            kind: MemoryKind,
            size: u64,
            flags: AdoptFlags,
            out: *mut Address,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Ends an adoption; host memory then holds what the device wrote.
    ///
    /// Threads: any.
    /// Blocks:  may: for work on this memory, never for other work.
    /// Owns:    nothing afterwards.
    /// Errors:  `NOT_OWNER` when it was not adopted.
    /// Since:   table 1.0.
    pub release_adopted: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            adopted: *const Address,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Host views of device memory.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct MapHooks {
    /// Gives the host an address where it sees `size` bytes of device memory until `unmap`.
    ///
    /// One memory may be mapped several times at once, also at one address; each ends by its own
    /// `unmap`.
    ///
    /// The host does not keep a program from asking for a copy or a fill of memory that is mapped. Where the
    /// vendor forbids one it is answered by `CONFLICT`, with nothing copied; where the device works in the
    /// bytes that the host sees, it may be done.
    ///
    /// Threads: any.
    /// Blocks:  yes, until the memory's earlier work is done.
    /// Owns:    while it is mapped the device touches the memory for what it is asked then,
    ///          and for nothing else.
    /// Errors:  `UNSUPPORTED` when it would need a copy.
    /// Since:   table 1.0.
    pub map: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            address: *const Address,
            size: u64,
            out: *mut *mut c_void,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Ends a mapping; the device sees what the host wrote.
    ///
    /// Threads: any.
    /// Blocks:  may: for work on this memory, never for other work.
    /// Owns:    takes the mapping.
    /// Errors:  `NOT_OWNER` when it is not a mapping of this address.
    /// Since:   table 1.0.
    pub unmap: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            address: *const Address,
            pointer: *mut c_void,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Allocation in stream order.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct AsyncMemoryHooks {
    /// Allocates device memory that is usable in stream order.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  no.
    /// Owns:    the caller owns the memory until `free` or `free_async`.
    /// Errors:  `OOM_DEVICE`.
    /// Since:   table 1.0.
    pub allocate_async: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            size: u64,
            out: *mut Address,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Frees device memory once the stream reaches this point. Until then a query may still know it, and
    /// `memory_usage` counts it.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  no.
    /// Owns:    takes the memory, after a failure as well: the host then frees it no more, and logs the
    ///          failure. After `UNSUPPORTED` alone it is still the host's, which frees it by `free` once
    ///          the work is over.
    /// Errors:  `NOT_OWNER`; `UNSUPPORTED` where this stream cannot free it.
    /// Since:   table 1.0.
    pub free_async: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            address: *const Address,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Open-ended facts about a device.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct AttributeHooks {
    /// Answers one numeric attribute. Keys and units are the plugin's own, and its documents list
    /// them; the contract gives no key a meaning.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  `UNSUPPORTED` for an unknown key.
    /// Since:   table 1.0.
    pub device_attribute: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            key: u32,
            out: *mut u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}

/// Cached memory: given back, and counted.
///
/// Cached is memory that was freed and that the plugin, or its vendor's pool, keeps for later allocations. A
/// plugin that keeps none may count all the same, and then has nothing to give back.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct PoolHooks {
    /// Gives cached memory back, until at most `keep_bytes` bytes of it are left.
    ///
    /// It gives back what is free now and waits for no stream of the plugin: memory that a stream has not freed
    /// yet stays, but for frees under way, which may be given a moment (100 ms at most). So does a free part of a
    /// block, which is what the plugin took from its vendor at once and gives back whole. Memory that is allocated
    /// keeps its address and its bytes. Without cached memory beyond `keep_bytes` it does nothing.
    ///
    /// Threads: any.
    /// Blocks:  may: for that moment, and for the vendor's call, which may wait for what other libraries have on
    ///          the device.
    /// Owns:    nothing.
    /// Errors:  `VENDOR`, `DEVICE_LOST`.
    /// Since:   table 1.0.
    pub memory_trim: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            keep_bytes: u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Counts what the plugin has of a device's memory, for all who use the plugin.
    ///
    /// Device memory counts with at least the size that was asked for, from the call that allocates it on
    /// until `free` returned, or its stream has freed it; memory of another kind may count too, and memory
    /// of others does not. Of the numbers that are known `used` is at most `reserved`, and neither is above
    /// its peak.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  `DEVICE_LOST`.
    /// Since:   table 1.0.
    pub memory_usage: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            out: *mut MemoryUsage,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Begins both peaks anew, with what is reserved and used now. They began when the plugin was opened.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  `DEVICE_LOST`.
    /// Since:   table 1.0.
    pub memory_reset_peaks: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}
