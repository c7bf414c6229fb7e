//! The hook table: one a plugin, the only thing that host and plugin share.

use abi_stable::StableAbi;

use super::{
    Address, AdoptHooks, AllocateArgs, AsyncMemoryHooks, AttributeHooks, CopyArgs, DeviceInfo,
    FillHooks, HostCallHooks, HostEventHooks, HostServices, MapHooks, MemoryInfo, MemoryKind,
    PeerHooks, PluginHandle, PointerInfo, PoolHooks, ProbeInfo, QueryCost, RawError, RegisterHooks,
    StaticPtr, Status, StreamHandle, StreamHooks, StridedHooks, TimingHooks, WrapHooks,
};

/// Major version of the contract: another one is refused.
pub const ABI_MAJOR: u32 = crate::abi_number!(major);
/// Minor version of the contract: grows with the table, and any is accepted.
pub const ABI_MINOR: u32 = crate::abi_number!(minor);
/// The function that a C plugin exports: `const xd_plugin_table *crossdock_plugin(void)`.
pub const C_ENTRY_SYMBOL: &str = "crossdock_plugin";
/// First bytes of the section `.crossdock`, before the `key=value` texts.
pub const DESCRIPTION_MAGIC: &str = "CROSSDOCK1\0";

/// The numbers of the version as literals, which [`describe!`](crate::describe) needs.
#[doc(hidden)]
#[macro_export]
macro_rules! abi_number {
    (major) => {
        1
    };
    (minor) => {
        0
    };
}

/// The hooks of one plugin, read by `struct_size`.
///
/// A hook that can fail takes `error` last. `NOT_READY` needs no error object.
///
/// Time limits (`timeout_ns`, `deadline_ns`) are nanoseconds from the call on: 0 looks and does not
/// wait, `u64::MAX` is no limit.
///
/// `error` is NULL, or where a failing hook may put an error object, which the caller gives back to
/// `error_free`. Out parameters are written on success only.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
#[sabi(kind(Prefix(prefix_ref = PluginTableRef)))]
#[sabi(missing_field(option))]
pub struct PluginTable {
    /// Bytes of this struct as the plugin knows it.
    pub struct_size: u32,
    /// [`ABI_MAJOR`] that the plugin was built against.
    pub abi_major: u32,
    /// [`ABI_MINOR`] that the plugin was built against.
    pub abi_minor: u32,
    /// What an answer of `pointer_query` costs. A number that the host does not know counts as
    /// [`QueryCost::DRIVER`].
    pub query_cost: QueryCost,
    /// Zero.
    pub reserved: [u32; 2],
    /// The bytes of the section `.crossdock`.
    pub description: StaticPtr<u8>,
    /// Frees an error object that a hook of this plugin made.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    takes the object.
    /// Errors:  none.
    /// Since:   table 1.0.
    pub error_free: Option<unsafe extern "C" fn(error: *mut RawError)>,
    /// Looks for the driver and its devices and changes nothing.
    ///
    /// Threads: one at a time; no hook but `probe` before `open`.
    /// Blocks:  may.
    /// Owns:    nothing.
    /// Errors:  only what is neither ready nor absent nor broken, as `PANIC`.
    /// Since:   table 1.0.
    pub probe:
        Option<unsafe extern "C" fn(out: *mut ProbeInfo, error: *mut *mut RawError) -> Status>,
    /// Acquires the driver. May be called again after it failed, and while an earlier handle lives: that
    /// gives a handle with a state of its own, or `CONFLICT`, and disturbs the earlier one in neither
    /// case.
    ///
    /// A plugin may own threads and processes. It starts them here or later, not in `probe` and not when its
    /// file is loaded, and `close` ends them; a thread that was told to end may return a little later, since
    /// the library stays mapped. A process gets no signal handler, fork handler or file
    /// of the host's, is waited for by its number alone, and ends by itself when the host does; while a
    /// plugin has one, the host's program may get `SIGCHLD`. When the process ends too early, its
    /// devices are lost.
    ///
    /// A plugin is not told where its file lies, and `dladdr` does not tell: while an earlier build is
    /// loaded from the same path, the file is loaded as a private copy, which is deleted once its table
    /// was read. What it finds beside it by `$ORIGIN` is then nothing, or the earlier build's. Files of
    /// a plugin lie where it was built to look, where a variable of its vendor says, or where the
    /// dynamic linker finds them by their name; or they are a part of its own file.
    ///
    /// Threads: one at a time.
    /// Blocks:  may.
    /// Owns:    borrows `host`, which lives as long as the process; the caller owns the handle until `close`.
    /// Errors:  `NO_DRIVER`, `DRIVER_TOO_OLD`, `DRIVER_STUB`, `NO_DEVICE`, `VENDOR`;
    ///          `CONFLICT` where it cannot be open twice.
    /// Since:   table 1.0.
    pub open: Option<
        unsafe extern "C" fn(
            host: *const HostServices,
            out: *mut PluginHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Counts devices, after the vendor's masks. Fixed from `open` on.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  `VENDOR`.
    /// Since:   table 1.0.
    pub device_count: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            out: *mut u32,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Describes a device, the same each time.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  `INVALID` for an index that is not there.
    /// Since:   table 1.0.
    pub device_info: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            out: *mut DeviceInfo,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Says how much device memory there is now.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  `DEVICE_LOST`.
    /// Since:   table 1.0.
    pub memory_info: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            out: *mut MemoryInfo,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Allocates memory. The size is never 0.
    ///
    /// Threads: any.
    /// Blocks:  may.
    /// Owns:    the caller owns the memory until `free`.
    /// Errors:  `OOM_DEVICE`, `OOM_HOST`; `UNSUPPORTED` for a kind the device does not offer, and for an
    ///          alignment that it cannot keep.
    /// Since:   table 1.0.
    pub allocate: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            args: *const AllocateArgs,
            out: *mut Address,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Frees what `allocate` gave, at its base.
    ///
    /// Threads: any.
    /// Blocks:  may: for work on this memory, never for other work.
    /// Owns:    takes the memory; no work on it is in flight.
    /// Errors:  `NOT_OWNER` for another address or kind; the host logs them.
    /// Since:   table 1.0.
    pub free: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            address: *const Address,
            kind: MemoryKind,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Copies bytes between host and device or between devices of this plugin, in stream order, or at
    /// once without a stream.
    ///
    /// On a stream it does not wait, for pageable host memory neither: where the vendor's own copy
    /// would, the plugin takes the bytes through memory of its own when the stream gets there. The stream
    /// may be of another device of the plugin than the memory: `UNSUPPORTED` where that cannot be.
    /// Where it fails by another error, a part of it may be on the stream: the host keeps both memories until what is
    /// on the stream by then is done. The same holds for strided copies and fills.
    ///
    /// An allocation of the plugin that is of another kind or device than its side says is copied as what it
    /// is, or refused by `NOT_OWNER`, `INVALID` or `UNSUPPORTED`, with nothing copied. A side that says
    /// `MemoryKind::HOST` may be taken on trust. It may lie in memory that the plugin adopted, registered or
    /// mapped: whether the sides overlap is a question of bytes, not of names.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  without a stream; with one only where the vendor refuses a call in the middle of the work.
    /// Owns:    borrows `args` for the call and both memories until the work is done.
    /// Errors:  `UNSUPPORTED` for a pair it cannot reach: nothing was changed; `INVALID` for overlap.
    ///          `INVALID` too where a side reaches past the end of its allocation, with the offset of a
    ///          handle, and `NOT_OWNER` where it begins in none: nothing was copied.
    /// Since:   table 1.0.
    pub copy: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            args: *const CopyArgs,
            stream: StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Says who owns an address. Unowned is an answer, not an error; no word is dereferenced on trust.
    ///
    /// When the host asks depends on `query_cost`. Of a word that others call this device's it asks for
    /// the handle and for the pointer, and refuses a word that is both.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  none but `PANIC`.
    /// Since:   table 1.0.
    pub pointer_query: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            address: *const Address,
            out: *mut PointerInfo,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Refuses new work, drains or gives up after `deadline_ns`, releases vendor objects. Memory stays
    /// freeable. The deadline counts from the call on, in nanoseconds, and `u64::MAX` is none; work that
    /// ran on past the deadline can still be waited for, and the plugin is retired all the same. The host
    /// calls it at most once for each handle, after `TIMEOUT` too.
    ///
    /// Hooks that begin something answer `RETIRED` from then on: `allocate`, `allocate_async`, `copy`,
    /// `copy_strided`, `fill`, `register_host`, `adopt`, `map`, `stream_create`, `stream_wrap`,
    /// `event_create`, `event_create_host`, `stream_host_call` and `peer_enable`; `stream_default`,
    /// `event_record` and `stream_wait_event` may. Those that end, ask or wait go on: `free`, `free_async`,
    /// `unregister_host`, `release_adopted`, `unmap`, `pointer_query`, the facts of a device, `memory_trim`,
    /// `memory_usage`, `memory_reset_peaks`, `peer_can_access`, `peer_disable`, `event_complete`, and
    /// queries, waits and ends of streams and events. The conformance suite asks those that begin something,
    /// but `adopt` and `stream_wrap`.
    ///
    /// Threads: one at a time.
    /// Blocks:  yes, up to the deadline.
    /// Owns:    nothing.
    /// Errors:  `TIMEOUT`.
    /// Since:   table 1.0.
    pub retire: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            deadline_ns: u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Runs in the child of a fork, inside of `fork` and for each open handle: marks all state dead
    /// without a vendor call. No hook of this handle is called afterwards.
    ///
    /// A plugin whose description names no driver may be opened anew then, `probe` and `open` again, for
    /// a runtime of the child's. That finds what is static in the library as this hook left it: a lock
    /// that a thread of the parent's held is held for ever unless it is made anew here. A plugin whose
    /// driver was started before the fork is not called in the child any more.
    ///
    /// Threads: the only one there is.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  none.
    /// Since:   table 1.0.
    pub at_fork_child: Option<unsafe extern "C" fn(plugin: PluginHandle)>,
    /// Runs when the process begins to exit: stops the plugin's own threads; no vendor call afterwards.
    /// Called once for each open plugin, retired ones too, before what its library registered with
    /// `atexit`. From then on no hook is called, `close` neither.
    ///
    /// Threads are told to stop and not waited for. Work that is queued may stay undone, functions of the
    /// host that have not begun never run, and a hook that waits may answer `EXITING`.
    ///
    /// Threads: the one that called `exit`; others may still be inside of hooks that began before.
    /// Blocks:  no.
    /// Owns:    nothing.
    /// Errors:  none.
    /// Since:   table 1.0.
    pub at_exit: Option<unsafe extern "C" fn(plugin: PluginHandle)>,
    /// Gives everything back. The handle is dead afterwards; the library stays mapped. Called once nobody
    /// holds the plugin, with `retire` before it or without; not after `PANIC`, in a process that exits, or
    /// in the child of a fork. Host events that are pending are completed with a failure, and work that is
    /// left is waited for.
    ///
    /// Threads: any, often one of the host's own: the one that gave back what held the plugin last. None of
    ///          the plugin's. One at a time, after every other hook returned.
    /// Blocks:  may.
    /// Owns:    takes the handle.
    /// Errors:  the host logs them.
    /// Since:   table 1.0.
    pub close:
        Option<unsafe extern "C" fn(plugin: PluginHandle, error: *mut *mut RawError) -> Status>,
    /// Streams and events, or NULL.
    pub streams: StaticPtr<StreamHooks>,
    /// Streams of others, or NULL.
    pub wrap: StaticPtr<WrapHooks>,
    /// Events that the host completes, or NULL.
    pub host_events: StaticPtr<HostEventHooks>,
    /// Host functions on a stream, or NULL.
    pub host_calls: StaticPtr<HostCallHooks>,
    /// Times between events, or NULL.
    pub timing: StaticPtr<TimingHooks>,
    /// Strided copies, or NULL.
    pub strided: StaticPtr<StridedHooks>,
    /// Fills, or NULL.
    pub fill: StaticPtr<FillHooks>,
    /// Host memory locked for a device, or NULL.
    pub register: StaticPtr<RegisterHooks>,
    /// Memory of others without a copy, or NULL.
    pub adopt: StaticPtr<AdoptHooks>,
    /// Host views of device memory, or NULL.
    pub map: StaticPtr<MapHooks>,
    /// Allocation in stream order, or NULL.
    pub async_memory: StaticPtr<AsyncMemoryHooks>,
    /// Open-ended facts, or NULL.
    pub attributes: StaticPtr<AttributeHooks>,
    /// Cached memory, or NULL.
    pub pool: StaticPtr<PoolHooks>,
    /// Direct links between the plugin's devices, or NULL.
    #[sabi(last_prefix_field)]
    pub peer: StaticPtr<PeerHooks>,
}
