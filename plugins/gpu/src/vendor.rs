//! What a vendor's crate gives: the driver's calls, its numbers and its names.
//!
//! A call that fails answers with the driver's own number. Only the vendor's crate knows what it means: [`Vendor::error_kind`]
//! says it. Contexts, pools, streams, events and addresses are integers of 64 bits, and 0 is never one of them, but
//! as a default stream.
#![expect(unsafe_code, reason = "calls that touch raw memory are unsafe")]

use std::ffi::c_void;

use crossdock_sdk::dlpack::DeviceType;

pub use crate::answers::{
    Code, Column, CopyDirection, ErrorKind, Facts, Kind, Known, PoolBytes, Region, Rows, Unusable,
};
pub use crate::library::Library;

/// What a call of the driver gives.
pub type Answer<T = ()> = Result<T, Code>;

/// A function that a stream calls, with the pointer that was given with it.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A vendor's driver, opened. Several threads call it at the same time; calls that submit to one stream of the contract
/// come one at a time. Waits (`synchronize_*`) have no limit.
///
/// Every context, stream, event and pool that is passed is one that this vendor gave and that was not destroyed since, or
/// one for which a caller of `stream_wrap` vouched. This crate is the only caller, and keeps that.
///
/// A context has to be entered before a call. These need none: all under "Driver" (of `known`, see there), `retain`, `release`, `enter`,
/// `can_reach`, and `query_stream`, by which a lost device is told.
pub trait Vendor: Sized + std::fmt::Debug + Send + Sync + 'static {
    /// The plugin's self-description.
    const DESCRIPTION: &'static str;
    /// The driver's library, for texts.
    const LIBRARY: &'static str;
    /// The DLPack type of its devices and their memory.
    const DEVICE_TYPE: DeviceType;
    /// The DLPack type of pinned memory.
    const PINNED_TYPE: DeviceType;
    /// The DLPack type of managed memory; none where that has the devices' own.
    const MANAGED_TYPE: Option<DeviceType>;
    /// The handle of the default stream in the driver's calls.
    const DEFAULT_STREAM: u64;
    /// Handles that mean the device's default stream, for `stream_wrap`.
    const DEFAULT_STREAMS: &'static [u64];
    /// The handle that means the calling thread's own default stream.
    const PER_THREAD_DEFAULT_STREAM: u64;
    /// The widest unit of a fill that leaves gaps, in bytes: 1, 2 or 4. One call of the driver's makes such a fill.
    const WIDEST_WITH_GAPS: u64;

    // Driver.

    /// Opens the library.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn load() -> Result<Self, Unusable>;
    /// Starts the driver, once or several times.
    ///
    /// # Errors
    /// The driver's.
    fn start(&self) -> Answer;
    /// Its version as people write it, or that it is none that the plugin can use: which it has, and which are needed.
    /// Asked before it is started.
    ///
    /// # Errors
    /// The driver's.
    fn version(&self) -> Answer<Result<String, Unusable>>;
    /// What a result stands for. What happens next depends on it: [`ErrorKind::NotReady`] is no failure, behind
    /// [`ErrorKind::Fatal`] the device is asked whether it is lost, and [`ErrorKind::Unsupported`] lets the host try another way.
    fn error_kind(code: Code) -> ErrorKind;
    /// The driver's name of a result, and its description of it; empty where it has none.
    fn name_and_text(&self, code: Code) -> (String, String);
    /// Counts devices.
    ///
    /// # Errors
    /// The driver's.
    fn count(&self) -> Answer<u32>;
    /// What a device is; makes no context.
    ///
    /// # Errors
    /// The driver's.
    fn facts(&self, ordinal: i32) -> Answer<Facts>;
    /// A numeric attribute, by the vendor's own number.
    ///
    /// # Errors
    /// The driver's.
    fn attribute(&self, ordinal: i32, key: i32) -> Answer<i32>;
    /// What the driver knows of an address, which is not followed. It is called without a context first; a driver that
    /// needs one answers [`ErrorKind::Stale`], and is asked again inside of one.
    ///
    /// # Errors
    /// The driver's.
    fn known(&self, address: u64) -> Answer<Option<Known>>;

    // Contexts. A vendor that has devices and no contexts gives a number for each device, which is not 0.

    /// Holds the device's primary context.
    ///
    /// # Errors
    /// The driver's.
    fn retain(&self, ordinal: i32) -> Answer<u64>;
    /// Lets go of the primary context.
    ///
    /// # Errors
    /// The driver's.
    fn release(&self, ordinal: i32) -> Answer;
    /// Makes a context current on this thread. Returns what [`Vendor::leave`] needs to undo it.
    ///
    /// # Errors
    /// The driver's.
    fn enter(&self, ordinal: i32, context: u64) -> Answer<u64>;
    /// Undoes [`Vendor::enter`].
    fn leave(&self, before: u64);
    /// Lets this thread make calls that a stream capture elsewhere would forbid or be ended by. Returns the mode
    /// before, for [`Vendor::restore_capture_mode`]; none where that failed, and the mode is as it was.
    fn relax_capture_mode(&self) -> Option<i32>;
    /// Undoes [`Vendor::relax_capture_mode`]: sets the mode back.
    fn restore_capture_mode(&self, before: i32);
    /// Bytes of memory that are free, and all of them, of the device whose context was entered.
    ///
    /// # Errors
    /// The driver's.
    fn memory_info(&self) -> Answer<(u64, u64)>;

    // Memory.

    /// Allocates device memory, and like the next two waits for no work. `bytes` is not 0, and the memory is aligned to 256 bytes at least.
    ///
    /// # Errors
    /// The driver's.
    fn allocate(&self, bytes: u64) -> Answer<u64>;
    /// Allocates whole pages of the host's memory, which the host and all devices reach at the address that is given.
    ///
    /// # Errors
    /// The driver's.
    fn allocate_pinned(&self, bytes: u64) -> Answer<u64>;
    /// Allocates managed memory, which migrates between the host and devices: all reach it at one address.
    ///
    /// # Errors
    /// The driver's.
    fn allocate_managed(&self, bytes: u64) -> Answer<u64>;
    /// Frees what one of the three gave. It may wait for the whole device.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - Nobody uses the memory.
    unsafe fn free(&self, address: u64, kind: Kind) -> Answer;
    /// Registers memory of the host for all devices, which locks its pages.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - The range is the caller's until it is unregistered.
    unsafe fn register_host(&self, address: u64, bytes: u64) -> Answer;
    /// Ends the registration.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - No work uses the memory.
    unsafe fn unregister_host(&self, address: u64) -> Answer;

    // Pools.

    /// Makes a pool that keeps up to `keep` bytes of freed memory.
    ///
    /// # Errors
    /// The driver's.
    fn create_pool(&self, ordinal: i32, keep: u64) -> Answer<u64>;
    /// Ends a pool.
    ///
    /// # Errors
    /// The driver's.
    fn destroy_pool(&self, pool: u64) -> Answer;
    /// Gives memory back until at most `reserved` bytes are reserved.
    ///
    /// # Errors
    /// The driver's.
    fn trim_pool(&self, pool: u64, reserved: u64) -> Answer;
    /// How many bytes a pool has reserved.
    ///
    /// # Errors
    /// The driver's.
    fn pool_bytes(&self, pool: u64) -> Answer<PoolBytes>;
    /// Sets a pool's peak back to what it has reserved now.
    ///
    /// # Errors
    /// The driver's.
    fn reset_pool_peak(&self, pool: u64) -> Answer;
    /// Allocates in a stream's order.
    ///
    /// # Errors
    /// The driver's.
    fn allocate_on(&self, pool: u64, bytes: u64, stream: u64) -> Answer<u64>;
    /// Frees in a stream's order.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - Nobody uses the memory after this point of the stream.
    unsafe fn free_on(&self, address: u64, stream: u64) -> Answer;

    // Links.

    /// Whether a device reaches memory of another one by itself; makes no context.
    ///
    /// # Errors
    /// The driver's.
    fn can_reach(&self, ordinal: i32, peer: i32) -> Answer<bool>;
    /// Lets the context that was entered reach memory of another one. False where it did already, maybe by others in the
    /// process: who got true disables it, and nobody else.
    ///
    /// # Errors
    /// The driver's.
    fn enable_peer(&self, context: u64) -> Answer<bool>;
    /// Ends what [`Vendor::enable_peer`] began; no failure where it is not enabled.
    ///
    /// # Errors
    /// The driver's.
    fn disable_peer(&self, context: u64) -> Answer;
    /// Lets a device reach memory of a pool of another one, or ends that.
    ///
    /// # Errors
    /// The driver's.
    fn share_pool(&self, pool: u64, ordinal: i32, is_shared: bool) -> Answer;

    // Streams.

    /// Makes a stream that no default stream waits for.
    ///
    /// # Errors
    /// The driver's.
    fn create_stream(&self) -> Answer<u64>;
    /// Destroys a stream; its work completes all the same.
    ///
    /// # Errors
    /// The driver's.
    fn destroy_stream(&self, stream: u64) -> Answer;
    /// Whether its work is over: else [`ErrorKind::NotReady`].
    ///
    /// # Errors
    /// The driver's, and that of its work.
    fn query_stream(&self, stream: u64) -> Answer;
    /// Waits for its work.
    ///
    /// # Errors
    /// The driver's, and that of its work.
    fn synchronize_stream(&self, stream: u64) -> Answer;
    /// Lets a stream wait for an event.
    ///
    /// # Errors
    /// The driver's.
    fn wait_event(&self, stream: u64, event: u64) -> Answer;
    /// Makes a stream wait until the 32 bits at an address are at least `value`. Neither is above 2 to the 30, so that
    /// it does not matter whether the driver compares with a sign.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - At `address` is pinned memory that lives until the wait is over.
    unsafe fn wait_value32(&self, stream: u64, address: u64, value: u32) -> Answer;
    /// Makes a stream call a function of the host. Where this fails the function is never called, and not once the device
    /// is lost either.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - The function may be called once with `user_data`, on any thread.
    unsafe fn call(&self, stream: u64, function: HostFunction, user_data: *mut c_void) -> Answer;
    /// The context of a stream of others, and its device's ordinal. The caller passes no integer below 4096.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - The integer is a live stream.
    unsafe fn context_of(&self, stream: u64) -> Answer<(u64, i32)>;
    /// Whether a stream captures.
    ///
    /// # Errors
    /// The driver's.
    fn is_capturing(&self, stream: u64) -> Answer<bool>;

    // Events.

    /// Makes an event that can be timed.
    ///
    /// # Errors
    /// The driver's.
    fn create_event(&self) -> Answer<u64>;
    /// Ends an event.
    ///
    /// # Errors
    /// The driver's.
    fn destroy_event(&self, event: u64) -> Answer;
    /// Records an event at a stream's end.
    ///
    /// # Errors
    /// The driver's.
    fn record(&self, event: u64, stream: u64) -> Answer;
    /// Whether it happened: else [`ErrorKind::NotReady`].
    ///
    /// # Errors
    /// The driver's, and that of the work before it.
    fn query_event(&self, event: u64) -> Answer;
    /// Waits for it.
    ///
    /// # Errors
    /// The driver's, and that of the work before it.
    fn synchronize_event(&self, event: u64) -> Answer;
    /// Milliseconds from one to another.
    ///
    /// # Errors
    /// The driver's.
    fn elapsed(&self, start: u64, end: u64) -> Answer<f32>;

    // Work.

    /// Copies bytes in a stream's order; `bytes` is not 0.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - Both sides are valid until the copy is done.
    unsafe fn copy(
        &self,
        direction: CopyDirection,
        dst: u64,
        src: u64,
        bytes: u64,
        stream: u64,
    ) -> Answer;
    /// Copies bytes between devices or contexts; each side is an address, its context, and its device's ordinal.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - As [`Vendor::copy`].
    unsafe fn copy_across(
        &self,
        dst: (u64, u64, i32),
        src: (u64, u64, i32),
        bytes: u64,
        stream: u64,
    ) -> Answer;
    /// Copies rows and planes.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - As [`Vendor::copy`], for every row.
    unsafe fn copy_rows(&self, region: &Region, stream: u64) -> Answer;
    /// Fills units, with or without gaps between them, by one call: where it fails, nothing is on the stream.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// - The units are valid until the fill is done.
    unsafe fn fill(&self, column: &Column, stream: u64) -> Answer;
}
