//! The safe traits that a Rust plugin implements; the contract of each hook stands at the table.
#![expect(unsafe_code, reason = "hooks that touch raw memory are unsafe to call")]

use core::ffi::c_void;

use super::{Error, Groups, Host};
use crate::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, DefaultStream, DeviceInfo, EventHandle, FillArgs,
    HostFunction, MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, ProbeInfo, QueryCost, Status,
    StreamHandle, StridedArgs,
};

/// The mandatory hooks. What a hook owns, blocks on and fails with is at
/// [`PluginTable`](crate::abi::PluginTable).
///
/// A plugin's `Drop` is its `close`: there it gives back what it still has, and completes host events that are
/// pending with a failure. It runs once, after nobody holds the plugin any more: every other hook has returned,
/// and none is called again. The thread is the one that gave back what held the plugin last, often one of the
/// host's own. [`Plugin::retire`] was called before or not. After a panic, in a process that exits, and in the
/// child of a fork it does not run: there [`Plugin::at_exit`] or [`Plugin::at_fork_child`] is the last that is
/// called. `Drop` ends the plugin's threads; one that was told to end may return a little later, since the
/// file stays loaded.
///
/// The host validates arguments against its own books; a plugin still answers `NOT_OWNER` for an
/// address it does not know. Time limits are nanoseconds from the call on: 0 looks and does not wait,
/// `u64::MAX` is no limit.
pub trait Plugin: Sized + Send + Sync + 'static {
    /// The self-description, made by [`describe!`](crate::describe).
    const DESCRIPTION: &'static str;
    /// Which optional groups this plugin implements.
    const GROUPS: Groups<Self>;
    /// What an answer of [`Self::pointer_query`] costs: [`QueryCost::TABLE`] where it comes from a table of
    /// the plugin's own, without a call of its driver.
    const QUERY_COST: QueryCost = QueryCost::DRIVER;

    /// Looks for the driver and changes nothing.
    ///
    /// # Errors
    /// Only what is neither ready nor absent nor broken.
    fn probe() -> Result<ProbeInfo, Error>;

    /// Acquires the driver. The plugin starts its threads and processes here or later, and its `Drop` ends
    /// them. Where it finds its files stands at [`PluginTable::open`](crate::abi::PluginTable::open).
    ///
    /// # Errors
    /// Why it cannot be used.
    fn open(host: Host) -> Result<Self, Error>;

    /// Counts devices.
    fn device_count(&self) -> u32;

    /// Describes a device, the same each time.
    ///
    /// # Errors
    /// `INVALID` for an index that is not there.
    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error>;

    /// Says how much memory there is now.
    ///
    /// # Errors
    /// `INVALID`, `DEVICE_LOST`.
    fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error>;

    /// Allocates memory, at least 256-byte aligned.
    ///
    /// # Errors
    /// `OOM_DEVICE`, `OOM_HOST`, `UNSUPPORTED`.
    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error>;

    /// Frees what [`Self::allocate`] gave. It may wait for work on this memory, and never for other work.
    ///
    /// # Errors
    /// `NOT_OWNER`.
    ///
    /// # Safety
    /// - No work on the memory is in flight, and nobody uses it afterwards.
    unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error>;

    /// Copies bytes in stream order, or at once without a stream. On a stream it does not wait, for
    /// pageable host memory neither. What host memory may be, which sides there are and where a copy may
    /// begin and end stands at [`PluginTable::copy`](crate::abi::PluginTable::copy).
    ///
    /// # Errors
    /// `UNSUPPORTED` when this plugin cannot reach both sides; `INVALID` where they overlap, or one reaches
    /// past the end of its allocation, and `NOT_OWNER` where one begins in none, which a caller may ask for.
    ///
    /// # Safety
    /// - Host memory is valid for `bytes` bytes until the copy is done, and memory of this plugin lives until then.
    unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error>;

    /// Says who owns an address; never dereferences it.
    ///
    /// # Errors
    /// None in a correct plugin.
    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error>;

    /// Refuses new work and drains, for `deadline_ns` nanoseconds at most; `u64::MAX` is no limit. Which
    /// hooks answer `RETIRED` from then on stands at
    /// [`PluginTable::retire`](crate::abi::PluginTable::retire).
    ///
    /// Does nothing unless overridden, which is enough to try a plugin; most of the conformance suite's cases
    /// that begin with `a_retired_plugin_` then fail.
    ///
    /// # Errors
    /// `TIMEOUT`.
    fn retire(&self, _deadline_ns: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Marks all state dead in the child of a fork, inside of `fork`, where nothing of `self` is used
    /// afterwards. Without a driver in its description the plugin may be opened anew then, and finds what
    /// is static as this left it. Does nothing unless overridden.
    fn at_fork_child(&self) {}

    /// Stops the plugin's own threads at exit, on the thread that exits: others may still be inside of
    /// hooks. Nothing of `self` is called afterwards. Does nothing unless overridden.
    fn at_exit(&self) {}
}

/// Streams and events on them.
///
/// How failures are told ([`StreamHooks`](crate::abi::StreamHooks) has all of it):
/// - Work that failed is over, and the work behind it on its stream still runs.
/// - For work that failed, a query or a wait answers `VENDOR`, `DEVICE_LOST` or `OOM_DEVICE`
///   ([`Status::is_failure_of_work`]), never another status. Every other failure says nothing about the
///   work, which the host then treats as running.
/// - An event tells each time, a stream once: `stream_query` until `stream_synchronize` has told. It is
///   not sticky: what is put on the stream afterwards has no part in it.
/// - A stream that waits for an event that failed has failed with the same status, and so has an event
///   that is recorded behind the wait before `stream_synchronize` told: failures travel.
pub trait Streams: Plugin {
    /// Creates a stream.
    ///
    /// # Errors
    /// `INVALID`, the vendor's.
    fn stream_create(&self, device: u32) -> Result<StreamHandle, Error>;
    /// Names the device's default stream, or that of the calling thread.
    ///
    /// # Errors
    /// `UNSUPPORTED` when there is none of this kind.
    fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error>;
    /// Gives the vendor's integer for a stream. Live streams of a device with equal integers are one
    /// stream, so a number that names another stream on each thread must not be given. The host queries a stream that
    /// it created only when a caller needs the integer: before that, no other code uses the stream.
    ///
    /// # Errors
    /// `UNSUPPORTED`, `STALE`.
    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error>;
    /// Destroys a stream; its work completes.
    ///
    /// # Errors
    /// `STALE`.
    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error>;
    /// Blocks until the stream's work is done; with a limit of 0 it only says whether it is.
    ///
    /// # Errors
    /// `TIMEOUT`, or the first failure of its work, once, when all of it is over.
    fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error>;
    /// Says whether the stream's work is done.
    ///
    /// # Errors
    /// `NOT_READY`, or the first failure of its work once all of it is over, until `stream_synchronize`
    /// has told of it.
    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error>;
    /// Makes the stream wait for an event as it is now: a later record does not move the wait.
    ///
    /// # Errors
    /// `STALE`, `UNSUPPORTED`.
    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error>;
    /// Creates an event.
    ///
    /// # Errors
    /// `INVALID`, the vendor's.
    fn event_create(&self, device: u32) -> Result<EventHandle, Error>;
    /// Records an event at the stream's end.
    ///
    /// # Errors
    /// `STALE`, `INVALID`.
    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error>;
    /// Says whether an event happened.
    ///
    /// # Errors
    /// `NOT_READY`, or the failure before it, the same each time: `VENDOR`, `DEVICE_LOST` or
    /// `OOM_DEVICE` ([`Status::is_failure_of_work`]). Any other says nothing about the work.
    fn event_query(&self, event: EventHandle) -> Result<(), Error>;
    /// Blocks until an event happened.
    ///
    /// # Errors
    /// `TIMEOUT`, or the failure before it, as `event_query` tells it.
    fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error>;
    /// Destroys an event. A host event that is pending is completed with the failure `VENDOR`, which
    /// its waiters see.
    ///
    /// # Errors
    /// `STALE`; after any other the event is still alive.
    fn event_destroy(&self, event: EventHandle) -> Result<(), Error>;
}

/// Streams of others. The whole contract: [`WrapHooks`](crate::abi::WrapHooks).
pub trait Wrap: Streams {
    /// Makes a stream of the vendor's integer: also of those that name a default stream or, resolved by the
    /// calling thread, a thread's own.
    ///
    /// # Errors
    /// `INVALID` for a number that can be no stream, which is not followed as an address; `UNSUPPORTED`.
    ///
    /// # Safety
    /// - `native` is a live stream of the vendor, and outlives the stream made of it; or it is below 4096, where
    ///   no object lies: a number of a default stream, or one that is refused.
    unsafe fn stream_wrap(&self, device: u32, native: u64) -> Result<StreamHandle, Error>;
}

/// Events that the host completes. The whole contract: [`HostEventHooks`](crate::abi::HostEventHooks).
pub trait HostEvents: Streams {
    /// Creates such an event.
    ///
    /// # Errors
    /// The vendor's.
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error>;
    /// Completes it, once. Waiters see a failure as [`Status::as_failure_of_work`].
    ///
    /// # Errors
    /// `INVALID` when it is complete; after any other it is still pending, and may be completed again.
    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error>;
}

/// Host functions on a stream. The whole contract: [`HostCallHooks`](crate::abi::HostCallHooks).
pub trait HostCalls: Streams {
    /// Runs `function(word)` when the stream reaches it: exactly once, on any thread, also behind work that
    /// failed. The function is short, waits for nothing, and calls neither hooks nor the vendor; who calls it
    /// holds no lock that a hook takes. [`HostCall`](super::HostCall) keeps it until then. Where the driver
    /// drops it, the plugin runs it; a device that says `POLLED_HOST_CALLS` may do so in `stream_query`.
    ///
    /// # Errors
    /// `UNSUPPORTED`. After any error `function` is never called.
    ///
    /// # Safety
    /// - `function` may be called once with `word` on any thread.
    unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error>;
}

/// Times between events. The whole contract: [`TimingHooks`](crate::abi::TimingHooks).
pub trait Timing: Streams {
    /// Nanoseconds from `start` to `end`, any two live events of the plugin.
    ///
    /// # Errors
    /// `NOT_READY`, `INVALID` where `end` happened before `start` too.
    fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error>;
}

/// Strided copies. The whole contract: [`StridedHooks`](crate::abi::StridedHooks).
pub trait Strided: Plugin {
    /// Copies an n-dimensional region.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a pattern it cannot make; `INVALID` and `NOT_OWNER` as [`Plugin::copy`].
    ///
    /// # Safety
    /// - The arrays hold `rank` numbers each for the call.
    /// - Every element of both sides is valid until the copy is done; the sides do not overlap.
    unsafe fn copy_strided(&self, args: StridedArgs, stream: StreamHandle) -> Result<(), Error>;
}

/// Fills. The whole contract: [`FillHooks`](crate::abi::FillHooks).
pub trait Fill: Plugin {
    /// Repeats a pattern over a range.
    ///
    /// # Errors
    /// `UNSUPPORTED`, `INVALID`; `NOT_OWNER` for its range as [`Plugin::copy`].
    ///
    /// # Safety
    /// - The range is valid for writes until the fill is done.
    unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error>;
}

/// Host memory locked for a device. The whole contract: [`RegisterHooks`](crate::abi::RegisterHooks).
pub trait Register: Plugin {
    /// Locks host memory for the device. Its pages may be read-only: then no work writes it.
    ///
    /// # Errors
    /// `CONFLICT` where a part of it is registered for the device or is the plugin's own; `PERMISSION`,
    /// `OOM_HOST`.
    ///
    /// # Safety
    /// - The range can be read until it is unregistered, and written where work writes it.
    unsafe fn register_host(
        &self,
        device: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), Error>;
    /// Ends the registration. Adopted memory stays adopted. Work on this memory may be in flight: return
    /// `NOT_READY` while it needs the memory locked, and the host calls again later. A plugin that cannot query
    /// that work waits for it instead, but never for other work.
    ///
    /// # Errors
    /// `NOT_OWNER`; `NOT_READY`; `DEVICE_LOST` if the device is lost, or if a lost device locked the memory or may
    /// still use it: the memory then stays registered.
    fn unregister_host(&self, device: u32, pointer: *mut c_void) -> Result<(), Error>;
}

/// Memory of others without a copy. The whole contract: [`AdoptHooks`](crate::abi::AdoptHooks).
pub trait Adopt: Plugin {
    /// Gives device memory that aliases the foreign memory, in these ways.
    ///
    /// # Errors
    /// `UNSUPPORTED` when the device cannot reach it.
    ///
    /// # Safety
    /// - The foreign memory, or the vendor's object, is valid until the adoption ends.
    unsafe fn adopt(
        &self,
        device: u32,
        foreign: Address,
        kind: MemoryKind,
        size: u64,
        flags: AdoptFlags,
    ) -> Result<Address, Error>;
    /// Ends an adoption. It may wait for work on this memory, and never for other work.
    ///
    /// # Errors
    /// `NOT_OWNER`.
    fn release_adopted(&self, device: u32, adopted: Address) -> Result<(), Error>;
}

/// Host views of device memory. The whole contract: [`MapHooks`](crate::abi::MapHooks).
pub trait Map: Plugin {
    /// Maps `size` bytes for the host. Threads may map one memory at once, also at one address: each
    /// mapping ends by its own `unmap`.
    ///
    /// # Errors
    /// `UNSUPPORTED`, `NOT_OWNER`.
    fn map(&self, device: u32, address: Address, size: u64) -> Result<*mut c_void, Error>;
    /// Ends a mapping. It may wait for work on this memory, and never for other work.
    ///
    /// # Errors
    /// `NOT_OWNER`.
    fn unmap(&self, device: u32, address: Address, pointer: *mut c_void) -> Result<(), Error>;
}

/// Allocation in stream order.
pub trait AsyncMemory: Streams {
    /// Allocates in stream order.
    ///
    /// # Errors
    /// `OOM_DEVICE`.
    fn allocate_async(&self, stream: StreamHandle, size: u64) -> Result<Address, Error>;
    /// Frees in stream order. It takes the memory, after a failure as well: the host then frees it no
    /// more, and logs the failure. After `UNSUPPORTED` alone the memory is still the host's.
    ///
    /// # Errors
    /// `NOT_OWNER`; `UNSUPPORTED` where this stream cannot free it.
    ///
    /// # Safety
    /// - Nobody uses the memory after this point of the stream.
    unsafe fn free_async(&self, stream: StreamHandle, address: Address) -> Result<(), Error>;
}

/// Open-ended facts about a device.
pub trait Attributes: Plugin {
    /// Answers one attribute.
    ///
    /// # Errors
    /// `UNSUPPORTED` for an unknown key.
    fn device_attribute(&self, device: u32, key: u32) -> Result<u64, Error>;
}

/// Cached memory: given back, and counted.
pub trait Pool: Plugin {
    /// Gives back memory that was freed and is kept, until at most `keep_bytes` of it are left. It waits for
    /// no work: what a stream has not freed yet stays.
    ///
    /// # Errors
    /// `VENDOR`, `DEVICE_LOST`.
    fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error>;
    /// Counts what the plugin has of a device's memory. What counts, and from when until when, stands at
    /// [`PoolHooks::memory_usage`](crate::abi::PoolHooks::memory_usage).
    ///
    /// # Errors
    /// `DEVICE_LOST`.
    fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error>;
    /// Begins both peaks anew, with what is reserved and used now.
    ///
    /// # Errors
    /// `DEVICE_LOST`.
    fn memory_reset_peaks(&self, device: u32) -> Result<(), Error>;
}

/// Direct links between the plugin's devices. Without a link, copies between two of them arrive all the same.
pub trait Peer: Plugin {
    /// Says whether work of `device` can reach memory of `peer` over a link, as the vendor claims it. A
    /// device has no link with itself.
    ///
    /// # Errors
    /// `INVALID`, `DEVICE_LOST`.
    fn peer_can_access(&self, device: u32, peer: u32) -> Result<bool, Error>;
    /// Lets work of `device` that is submitted from now on reach memory of `peer` over the link. A link that is
    /// enabled already is `Ok`. This waits for no work.
    ///
    /// # Errors
    /// `UNSUPPORTED` where [`Self::peer_can_access`] says no; `INVALID`, `PERMISSION`, `DEVICE_LOST`, `VENDOR`.
    fn peer_enable(&self, device: u32, peer: u32) -> Result<(), Error>;
    /// Disables the link in this direction. One that is not enabled is `Ok`. This waits for no work, and what was
    /// submitted before is made all the same.
    ///
    /// # Errors
    /// `CONFLICT` where the vendor would wait for work: the link stays enabled; `INVALID`, `DEVICE_LOST`,
    /// `VENDOR`.
    fn peer_disable(&self, device: u32, peer: u32) -> Result<(), Error>;
}
