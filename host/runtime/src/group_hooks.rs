//! The hooks of the optional groups, called safely; a missing group answers `UNSUPPORTED`.
#![expect(unsafe_code, reason = "calls the C functions of a plugin's table")]

use std::ffi::c_void;

use crossdock_sdk::abi::{
    Address, DefaultStream, EventHandle, FillArgs, MemoryKind, Status, StreamHandle, StridedArgs,
};

use crate::error::Error;
use crate::hooks::{ErrorOut, Hooks};

/// Calls a hook of a group: `group!(self, streams.stream_query, (stream))`.
macro_rules! group {
    ($self:ident, $group:ident . $hook:ident, ($($arg:expr),*)) => {{
        let Some(hook) = $self.table().$group().and_then(|group| group.$hook) else {
            return Err($self.missing(stringify!($hook)));
        };
        // SAFETY: the table's contract: a live handle, arguments that the caller of this method
        // vouches for where it is unsafe, and an error pointer of ours.
        let call = |error: ErrorOut| unsafe { hook($self.handle(), $($arg,)* error) };
        $self.call(stringify!($hook), call)
    }};
}

impl Hooks {
    /// Creates a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        let mut out = StreamHandle::NONE;
        group!(self, streams.stream_create, (device, &raw mut out)).map(|()| out)
    }

    /// Names a default stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error> {
        let mut out = StreamHandle::NONE;
        group!(self, streams.stream_default, (device, which, &raw mut out)).map(|()| out)
    }

    /// Gives the vendor's integer for a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        let mut out = 0;
        group!(self, streams.stream_native, (stream, &raw mut out)).map(|()| out)
    }

    /// Destroys a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        group!(self, streams.stream_destroy, (stream))
    }

    /// Blocks until a stream's work is done.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        group!(self, streams.stream_synchronize, (stream, timeout_ns))
    }

    /// Asks whether a stream's work is done.
    ///
    /// # Errors
    /// What the hook answered; `NOT_READY` among it.
    pub fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        group!(self, streams.stream_query, (stream))
    }

    /// Makes a stream wait for an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        group!(self, streams.stream_wait_event, (stream, event))
    }

    /// Creates an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        let mut out = EventHandle::NONE;
        group!(self, streams.event_create, (device, &raw mut out)).map(|()| out)
    }

    /// Records an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        group!(self, streams.event_record, (event, stream))
    }

    /// Asks whether an event happened.
    ///
    /// # Errors
    /// What the hook answered; `NOT_READY` among it.
    pub fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        group!(self, streams.event_query, (event))
    }

    /// Blocks until an event happened.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        group!(self, streams.event_synchronize, (event, timeout_ns))
    }

    /// Destroys an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        group!(self, streams.event_destroy, (event))
    }

    /// Creates an event that the host completes.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        let mut out = EventHandle::NONE;
        group!(self, host_events.event_create_host, (device, &raw mut out)).map(|()| out)
    }

    /// Completes it.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        group!(self, host_events.event_complete, (event, status))
    }

    /// Nanoseconds between two events.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error> {
        let mut out = 0;
        group!(self, timing.event_elapsed, (start, end, &raw mut out)).map(|()| out)
    }

    /// Copies a strided region.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - The arrays hold `rank` numbers, and every element of both sides is valid until done.
    pub unsafe fn copy_strided(
        &self,
        args: StridedArgs,
        stream: StreamHandle,
    ) -> Result<(), Error> {
        group!(self, strided.copy_strided, (&raw const args, stream))
    }

    /// Fills a range.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - The range is valid for writes until the fill is done.
    pub unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error> {
        group!(self, fill.fill, (&raw const args, stream))
    }

    /// Adopts foreign memory.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - The foreign memory is valid until the adoption ends.
    pub unsafe fn adopt(
        &self,
        device: u32,
        foreign: Address,
        kind: MemoryKind,
        size: u64,
    ) -> Result<Address, Error> {
        let mut out = Address::default();
        group!(
            self,
            adopt.adopt,
            (device, &raw const foreign, kind, size, &raw mut out)
        )
        .map(|()| out)
    }

    /// Ends an adoption.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn release_adopted(&self, device: u32, adopted: Address) -> Result<(), Error> {
        group!(self, adopt.release_adopted, (device, &raw const adopted))
    }

    /// Maps device memory for the host.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn map(&self, device: u32, address: Address, size: u64) -> Result<*mut c_void, Error> {
        let mut out = std::ptr::null_mut();
        group!(
            self,
            map.map,
            (device, &raw const address, size, &raw mut out)
        )
        .map(|()| out)
    }

    /// Ends a mapping.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - `pointer` is what [`Self::map`] gave for this address, and nobody uses it afterwards.
    pub unsafe fn unmap(
        &self,
        device: u32,
        address: Address,
        pointer: *mut c_void,
    ) -> Result<(), Error> {
        group!(self, map.unmap, (device, &raw const address, pointer))
    }
}
