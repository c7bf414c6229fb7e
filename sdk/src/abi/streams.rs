//! The group of streams and of the events on them.

use abi_stable::StableAbi;

use super::{DefaultStream, EventHandle, PluginHandle, RawError, Status, StreamHandle};

/// Streams and the events on them.
///
/// - Work that failed is over, and the work behind it on its stream still runs.
/// - A query or a wait answers `VENDOR`, `DEVICE_LOST` or `OOM_DEVICE` for work that failed,
///   never another status.
/// - An event answers it each time: every later call of `event_query` and `event_synchronize` gives
///   the same status.
/// - A stream answers it once: `stream_query` gives it until `stream_synchronize` has given it, and
///   everything that was on the stream at that call is over then. It is not sticky: what is put on the
///   stream afterwards has no part in it.
/// - `TIMEOUT`, `NOT_READY`, `CAPTURING`, `INVALID`, `STALE`, `UNSUPPORTED`, `CONFLICT`, `PERMISSION`,
///   `ABI`, `PANIC`, `FORKED`, `EXITING`, `RETIRED` and `OOM_HOST` do not say whether the work is over;
///   the host then treats it as running.
/// - A wait of a stream for an event that failed is work that failed with the same status, so a
///   failure travels from stream to stream. An event that is recorded behind failed work on its stream,
///   and before `stream_synchronize` told of the failure, has that failure too.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct StreamHooks {
    /// Creates a stream on a device.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    the caller owns the stream until `stream_destroy`.
    /// Errors:  `VENDOR`.
    /// Since:   table 1.0.
    pub stream_create: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            out: *mut StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Names the device's default stream, or that of the calling thread.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    the plugin keeps it; it is never destroyed by the caller.
    /// Errors:  `UNSUPPORTED` when the device has no such default.
    /// Since:   table 1.0.
    pub stream_default: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            which: DefaultStream,
            out: *mut StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Gives the integer that the vendor's API uses for the stream. Live streams of a device with
    /// equal integers are one stream, so a number that names another stream on each thread must not
    /// be given. The host queries a stream that it created only when a caller needs the integer:
    /// before that, no other code uses the stream.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    borrowed: valid while the stream lives.
    /// Errors:  `UNSUPPORTED` when there is none, which is not made up; `STALE` after destroy.
    /// Since:   table 1.0.
    pub stream_native: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            out: *mut u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Destroys a stream; work already on it completes.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  no.
    /// Owns:    takes the stream.
    /// Errors:  `STALE`; the host logs them.
    /// Since:   table 1.0.
    pub stream_destroy: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Makes the calling thread wait until the stream's work is done. `timeout_ns` of `u64::MAX` is no
    /// limit; with 0 it does not wait, and still answers for work that is over.
    ///
    /// Threads: any.
    /// Blocks:  yes.
    /// Owns:    borrows the stream.
    /// Errors:  `TIMEOUT`, which tells of no failure yet; the first failure of the stream's work,
    ///          once, when all of it is over.
    /// Since:   table 1.0.
    pub stream_synchronize: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            timeout_ns: u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Says whether the stream's work is done: `OK` or `NOT_READY`.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    borrows the stream.
    /// Errors:  the first failure of the stream's work, once all of it is over.
    /// Since:   table 1.0.
    pub stream_query: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Makes the stream wait for an event of the same plugin, as it is at this call: for its last
    /// record, or for the host. A later record does not move the wait.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  no.
    /// Owns:    borrows both; the event may be destroyed at once.
    /// Errors:  `UNSUPPORTED` when the two cannot be chained.
    /// Since:   table 1.0.
    pub stream_wait_event: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            stream: StreamHandle,
            event: EventHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Creates an event; one that was never recorded is done.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    the caller owns the event until `event_destroy`.
    /// Errors:  `VENDOR`.
    /// Since:   table 1.0.
    pub event_create: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            device: u32,
            out: *mut EventHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Records the event at the stream's present end; replaces an earlier record for every later call.
    /// Waits that were called before keep the earlier one.
    ///
    /// Threads: any; one call at a time for one stream.
    /// Blocks:  no.
    /// Owns:    borrows both.
    /// Errors:  `INVALID` for an event that the host completes. After any failure the event keeps its
    ///          earlier record.
    /// Since:   table 1.0.
    pub event_record: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            event: EventHandle,
            stream: StreamHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Says whether the event happened: `OK` or `NOT_READY`.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    borrows the event.
    /// Errors:  the failure of the work before it, the same each time.
    /// Since:   table 1.0.
    pub event_query: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            event: EventHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Makes the calling thread wait for the event. `timeout_ns` of `u64::MAX` is no limit; with 0 it
    /// does not wait, and still answers for an event that happened.
    ///
    /// Threads: any.
    /// Blocks:  yes.
    /// Owns:    borrows the event.
    /// Errors:  `TIMEOUT`; the failure of the work before it, the same each time.
    /// Since:   table 1.0.
    pub event_synchronize: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            event: EventHandle,
            timeout_ns: u64,
            error: *mut *mut RawError,
        ) -> Status,
    >,
    /// Destroys an event, also one that is pending. A host event that is pending is completed with the
    /// failure `VENDOR`, which its waiters see; their streams go on. Its message should say that the event
    /// was destroyed: nothing else tells them.
    ///
    /// Threads: any.
    /// Blocks:  no.
    /// Owns:    takes the event. After a failure the event is still alive, and may be destroyed again.
    /// Errors:  `STALE`; the host logs them.
    /// Since:   table 1.0.
    pub event_destroy: Option<
        unsafe extern "C" fn(
            plugin: PluginHandle,
            event: EventHandle,
            error: *mut *mut RawError,
        ) -> Status,
    >,
}
