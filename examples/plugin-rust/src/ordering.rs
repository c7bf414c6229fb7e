//! The hooks that order work: streams, events, and host functions.

use std::ffi::c_void;

use crossdock_sdk::abi::{DefaultStream, EventHandle, HostFunction, Status, StreamHandle};
use crossdock_sdk::deadline::{Deadline, limit};
use crossdock_sdk::plugin::{Error, HostCall, HostCalls, HostEvents, Streams};

use crate::queue::{Event, Outcome, Stream, lock};
use crate::{Example, check_index};

impl Example {
    /// Waits until all work is over, failed or not.
    pub(crate) fn drain(&self, deadline_ns: u64) -> Result<(), Error> {
        let deadline = Deadline::after(limit(deadline_ns));
        let is_over = |stream: &Stream| stream.end(deadline).is_some();
        if self.streams.all().iter().all(|stream| is_over(stream)) {
            return Ok(());
        }
        Err(Error::new(
            Status::TIMEOUT,
            "retire",
            "a stream still has work",
        ))
    }
}

impl Streams for Example {
    fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        let operation = "stream_create";
        self.check_open(operation)?;
        check_index(operation, device)?;
        let (stream, thread) = Stream::start()?;
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        drop(threads);
        Ok(self.streams.insert(operation, stream)?)
    }

    fn stream_default(&self, device: u32, _: DefaultStream) -> Result<StreamHandle, Error> {
        check_index("stream_default", device)?;
        Err(Error::unsupported("stream_default"))
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        self.streams.find("stream_native", stream)?;
        Err(Error::unsupported("stream_native"))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        drop(self.streams.remove("stream_destroy", stream)?);
        Ok(())
    }

    fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "stream_synchronize";
        let stream = self.streams.find(operation, stream)?;
        let outcome = stream.end(Deadline::after(limit(timeout_ns)));
        if let Some(Err(_)) = outcome {
            stream.forget_failure();
        }
        answer(operation, outcome, Status::TIMEOUT)
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_query";
        let outcome = self.streams.find(operation, stream)?.end(now());
        answer(operation, outcome, Status::NOT_READY)
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        let operation = "stream_wait_event";
        let event = self.events.find(operation, event)?;
        self.streams.find(operation, stream)?.wait(&event)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        self.keep_event("event_create", device, Event::new())
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        let operation = "event_record";
        let event = self.events.find(operation, event)?;
        let stream = self.streams.find(operation, stream)?;
        if event.is_by_host() {
            let why = "the host completes this event";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        stream.record(&event)
    }

    fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_query";
        let outcome = self.events.find(operation, event)?.end(now());
        answer(operation, outcome, Status::NOT_READY)
    }

    fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "event_synchronize";
        let deadline = Deadline::after(limit(timeout_ns));
        let outcome = self.events.find(operation, event)?.end(deadline);
        answer(operation, outcome, Status::TIMEOUT)
    }

    fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        // Other threads may be waiting for it.
        self.events.remove("event_destroy", event)?.abandon();
        Ok(())
    }
}

impl HostEvents for Example {
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        self.keep_event("event_create_host", device, Event::pending())
    }

    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        let operation = "event_complete";
        let event = self.events.find(operation, event)?;
        let outcome = if status.is_ok() {
            Ok(())
        } else {
            Err(status.as_failure_of_work())
        };
        if event.complete(outcome) {
            return Ok(());
        }
        let why = "the event is not the host's, or was completed before";
        Err(Error::new(Status::INVALID, operation, why))
    }
}

impl HostCalls for Example {
    unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        let operation = "stream_host_call";
        self.check_open(operation)?;
        // SAFETY: the caller lets the function be called once with its word on any thread.
        let call = unsafe { HostCall::new(operation, function, word) }?;
        self.streams
            .find(operation, stream)?
            .submit(operation, move || call.run())
    }
}

impl Example {
    fn keep_event(
        &self,
        operation: &'static str,
        device: u32,
        event: Event,
    ) -> Result<EventHandle, Error> {
        self.check_open(operation)?;
        check_index(operation, device)?;
        Ok(self.events.insert(operation, event)?)
    }
}

/// A deadline that has passed: for questions, which never wait.
fn now() -> Deadline {
    Deadline::after(limit(0))
}

/// How work ended, as a hook says it; `otherwise` where it has not.
fn answer(
    operation: &'static str,
    outcome: Option<Outcome>,
    otherwise: Status,
) -> Result<(), Error> {
    match outcome {
        Some(Ok(())) => Ok(()),
        Some(Err(status)) => Err(Error::new(status, operation, "the work before it failed")),
        None => Err(Error::new(
            otherwise,
            operation,
            "the work is still pending",
        )),
    }
}
