//! The hooks of streams and events, called safely; a missing group answers `UNSUPPORTED`.
#![expect(unsafe_code, reason = "calls the C functions of a plugin's table")]

use std::ffi::c_void;

use crossdock_layers::ErrorOut;
use crossdock_sdk::abi::{DefaultStream, EventHandle, HostFunction, Status, StreamHandle};

use crate::error::Error;
use crate::hooks::plugin_hooks::{Hooks, group_hook};
use crate::process::process_state;

impl Hooks {
    /// Creates a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        let mut out = StreamHandle::NONE;
        group_hook!(self, streams.stream_create, (device, &raw mut out)).map(|()| out)
    }

    /// Names a default stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error> {
        let mut out = StreamHandle::NONE;
        group_hook!(self, streams.stream_default, (device, which, &raw mut out)).map(|()| out)
    }

    /// Gives the vendor's integer for a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        let mut out = 0;
        group_hook!(self, streams.stream_native, (stream, &raw mut out)).map(|()| out)
    }

    /// Destroys a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        group_hook!(self, streams.stream_destroy, (stream))
    }

    /// Blocks until a stream's work is done.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        group_hook!(self, streams.stream_synchronize, (stream, timeout_ns))
    }

    /// Asks whether a stream's work is done.
    ///
    /// # Errors
    /// What the hook answered; `NOT_READY` among it.
    pub fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        group_hook!(self, streams.stream_query, (stream))
    }

    /// Makes a stream wait for an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        group_hook!(self, streams.stream_wait_event, (stream, event))
    }

    /// Creates an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        let mut out = EventHandle::NONE;
        group_hook!(self, streams.event_create, (device, &raw mut out)).map(|()| out)
    }

    /// Records an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        group_hook!(self, streams.event_record, (event, stream))
    }

    /// Asks whether an event happened.
    ///
    /// # Errors
    /// What the hook answered; `NOT_READY` among it.
    pub fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        group_hook!(self, streams.event_query, (event))
    }

    /// Blocks until an event happened.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        group_hook!(self, streams.event_synchronize, (event, timeout_ns))
    }

    /// Destroys an event.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        group_hook!(self, streams.event_destroy, (event))
    }

    /// Creates an event that the host completes.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        let mut out = EventHandle::NONE;
        group_hook!(self, host_events.event_create_host, (device, &raw mut out)).map(|()| out)
    }

    /// Completes it. After a panic this is still done, with a failure: threads inside the plugin's
    /// hooks, and its devices, would wait for the event for ever.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        if self.is_quarantined() {
            self.fail_host_event(event);
            return Ok(());
        }
        group_hook!(self, host_events.event_complete, (event, status))
    }

    /// Gives an event back that the host completes, which fails it where it is pending; so it does
    /// where a hook panicked meanwhile and the event can only be leaked.
    ///
    /// # Errors
    /// What the hook answered.
    pub(crate) fn host_event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        let mut is_called = false;
        let target = self.target();
        let Some(destroy) = target
            .table()
            .streams()
            .and_then(|group| group.event_destroy)
        else {
            return Err(self.missing("event_destroy"));
        };
        let ended = self.call(target, "event_destroy", |error| {
            is_called = true;
            // SAFETY: the table's contract: live handles, given back once, and an error pointer of ours.
            unsafe { destroy(target.handle(), event, error) }
        });
        if !is_called {
            self.fail_host_event(event);
        }
        ended
    }

    /// Fails an event that the host completes, of a plugin that is not called any more but for this.
    /// Past the layers: none has a later call to judge, and an injected fault must not keep it from
    /// the plugin.
    fn fail_host_event(&self, event: EventHandle) {
        let target = self.own_target();
        let complete = target.table().host_events();
        let Some(complete) = complete.and_then(|group| group.event_complete) else {
            return;
        };
        if self.is_forked() || process_state::exiting() {
            return;
        }
        let mut error = std::ptr::null_mut();
        // SAFETY: the table's contract: a live handle and an error pointer of ours. One that is
        // complete already, and a plugin that panics again, change nothing.
        unsafe { complete(target.handle(), event, Status::VENDOR, &raw mut error) };
        if !error.is_null() {
            Self::discard(target, error);
        }
    }

    /// Nanoseconds between two events.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error> {
        let mut out = 0;
        group_hook!(self, timing.event_elapsed, (start, end, &raw mut out)).map(|()| out)
    }

    /// Wraps a stream that the vendor's API made; destroying the new handle leaves the stream.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - `native` is a live stream of the vendor that outlives the new one.
    pub unsafe fn stream_wrap(&self, device: u32, native: u64) -> Result<StreamHandle, Error> {
        let mut out = StreamHandle::NONE;
        group_hook!(self, wrap.stream_wrap, (device, native, &raw mut out)).map(|()| out)
    }

    /// Runs a function when a stream reaches it, exactly once, also after work that failed.
    ///
    /// # Errors
    /// What the hook answered; then the function is never called.
    ///
    /// # Safety
    /// - `function` may be called with `word` from any thread, and calls no hook.
    pub unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        group_hook!(self, host_calls.stream_host_call, (stream, function, word))
    }
}
