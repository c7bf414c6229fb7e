//! The hooks for streams and events.
#![expect(unsafe_code, reason = "a host function is a C function")]

use core::ffi::c_void;
use std::sync::Arc;

use crossdock_sdk::abi::{DefaultStream, EventHandle, HostFunction, Status, StreamHandle};
use crossdock_sdk::deadline::{Deadline, limit};
use crossdock_sdk::plugin::{Error, HostCall, HostCalls, HostEvents, Streams, Timing};

use crate::convert::{ended, outcome};
use crate::device::check_index;
use crate::event::{Event, Failure};
use crate::plugin::Cpu;
use crate::stream::Stream;

impl Cpu {
    /// The stream of a handle.
    pub(crate) fn stream(
        &self,
        operation: &'static str,
        handle: StreamHandle,
    ) -> Result<Arc<Stream>, Error> {
        self.device.check_process(operation)?;
        Ok(self.streams.find(operation, handle)?)
    }

    /// The stream that work is for; none asks for it at once.
    pub(crate) fn work_stream(
        &self,
        operation: &'static str,
        handle: StreamHandle,
    ) -> Result<Option<Arc<Stream>>, Error> {
        if handle.is_none() {
            return Ok(None);
        }
        self.stream(operation, handle).map(Some)
    }

    /// Waits until all streams are idle.
    pub(crate) fn drain(&self, deadline_ns: u64) -> Result<(), Error> {
        let deadline = Deadline::after(limit(deadline_ns));
        for stream in self.streams.all() {
            // A stream whose work failed is as idle as one whose work succeeded.
            if !stream.drain(deadline.left()) {
                let why = "a stream still has work";
                return Err(Error::new(Status::TIMEOUT, "retire", why));
            }
        }
        Ok(())
    }

    fn event(&self, operation: &'static str, handle: EventHandle) -> Result<Arc<Event>, Error> {
        self.device.check_process(operation)?;
        Ok(self.events.find(operation, handle)?)
    }

    fn new_event(
        &self,
        operation: &'static str,
        device: u32,
        event: Event,
    ) -> Result<EventHandle, Error> {
        self.device.check_open(operation)?;
        check_index(operation, device)?;
        Ok(self.events.insert(operation, event)?)
    }
}

impl Streams for Cpu {
    fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        let operation = "stream_create";
        self.device.check_open(operation)?;
        check_index(operation, device)?;
        let stream = Stream::new(&self.threads);
        Ok(self.streams.insert(operation, stream)?)
    }

    fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error> {
        check_index("stream_default", device)?;
        if which != DefaultStream::LEGACY {
            return Err(Error::unsupported("stream_default"));
        }
        Ok(self.default_stream)
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        self.stream("stream_native", stream)?;
        Err(Error::unsupported("stream_native"))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_destroy";
        self.device.check_process(operation)?;
        if stream == self.default_stream {
            let why = "the default stream is the device's own";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        drop(self.streams.remove(operation, stream)?);
        Ok(())
    }

    fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "stream_synchronize";
        let stream = self.stream(operation, stream)?;
        ended(
            operation,
            stream.synchronize(limit(timeout_ns)),
            Status::TIMEOUT,
        )
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_query";
        ended(
            operation,
            self.stream(operation, stream)?.query(),
            Status::NOT_READY,
        )
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        let operation = "stream_wait_event";
        let stream = self.stream(operation, stream)?;
        let event = self.event(operation, event)?;
        stream.wait(&event);
        Ok(())
    }

    fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        self.new_event("event_create", device, Event::new())
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        let operation = "event_record";
        let event = self.event(operation, event)?;
        let stream = self.stream(operation, stream)?;
        if event.is_by_host() {
            return Err(Error::new(
                Status::INVALID,
                operation,
                "the host completes this event",
            ));
        }
        stream.record(&event);
        Ok(())
    }

    fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_query";
        ended(
            operation,
            self.event(operation, event)?.query(),
            Status::NOT_READY,
        )
    }

    fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "event_synchronize";
        let event = self.event(operation, event)?;
        ended(
            operation,
            event.synchronize(limit(timeout_ns)),
            Status::TIMEOUT,
        )
    }

    fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_destroy";
        self.device.check_process(operation)?;
        // Other threads may hold it, waiting for it.
        self.events.remove(operation, event)?.abandon();
        Ok(())
    }
}

impl HostEvents for Cpu {
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        self.new_event("event_create_host", device, Event::pending())
    }

    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        let operation = "event_complete";
        let event = self.event(operation, event)?;
        let result = if status.is_ok() {
            Ok(())
        } else {
            let why =
                format!("another plugin's work, or the host, completed the event with `{status}`");
            Err(Failure::new(status, &why))
        };
        if event.complete(result) {
            return Ok(());
        }
        let why = "the event is not the host's, or was completed before";
        Err(Error::new(Status::INVALID, operation, why))
    }
}

impl Timing for Cpu {
    fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error> {
        let operation = "event_elapsed";
        let (start, end) = (self.event(operation, start)?, self.event(operation, end)?);
        if !start.is_recorded() || !end.is_recorded() {
            return Err(Error::new(
                Status::INVALID,
                operation,
                "an event was never recorded",
            ));
        }
        let (Some(start), Some(end)) = (start.happened_at(), end.happened_at()) else {
            let why = "an event is still pending";
            return Err(Error::new(Status::NOT_READY, operation, why));
        };
        let Some(elapsed) = end.checked_duration_since(start) else {
            let why = "the second event happened before the first";
            return Err(Error::new(Status::INVALID, operation, why));
        };
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl HostCalls for Cpu {
    unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        let operation = "stream_host_call";
        self.device.check_open(operation)?;
        let stream = self.stream(operation, stream)?;
        // SAFETY: the caller lets the function be called once with its word on any thread.
        let call = unsafe { HostCall::new(operation, function, word) }?;
        let device = Arc::clone(&self.device);
        let submitted = stream.submit(move || {
            if !device.is_exiting() {
                call.run();
            }
            Ok(())
        });
        outcome(operation, submitted)
    }
}
