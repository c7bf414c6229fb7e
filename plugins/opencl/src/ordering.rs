//! The hooks that order work: streams, events, host functions, times, and memory in their order.
#![expect(
    unsafe_code,
    reason = "queues of others and host functions arrive as plain words"
)]

use std::{
    ffi::c_void,
    sync::{Arc, PoisonError},
};

use crossdock_sdk::{
    abi::{Address, DefaultStream, EventHandle, HostFunction, MemoryKind, Status, StreamHandle},
    deadline::limit,
    plugin::{AsyncMemory, Error, HostCall, HostCalls, HostEvents, Streams, Timing, Wrap},
};

use crate::{
    event::Event,
    fault::{Fault, Kind},
    plugin::OpenCl,
    progress::{Progress, is_over},
    stream::Stream,
    word::can_be_object,
};

/// Where a driver's objects can begin: no process has the page at 0.
const FIRST_ADDRESS: usize = 4096;

impl Streams for OpenCl {
    fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        const OPERATION: &str = "stream_create";
        self.check(OPERATION)?;
        let stream = Stream::create(self.device(device, OPERATION)?)?;
        Ok(self.streams.insert(OPERATION, stream)?)
    }

    fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error> {
        const OPERATION: &str = "stream_default";
        self.check(OPERATION)?;
        if which != DefaultStream::LEGACY {
            return Err(Error::unsupported(OPERATION));
        }
        let owner = self.device(device, OPERATION)?;
        if let Some(known) = self.default_of(device) {
            return Ok(known);
        }
        // Made without the lock; of two threads that do this at once, one throws its own away.
        let made = self.streams.insert(OPERATION, Stream::create(owner)?)?;
        let kept = self.keep_default(device, made);
        if kept != made {
            drop(self.streams.remove(OPERATION, made)?);
        }
        Ok(kept)
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        let stream = self.stream(stream, "stream_native")?;
        Ok(stream.queue.word())
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        const OPERATION: &str = "stream_destroy";
        self.driver.driver_state.check(OPERATION)?;
        let defaults = self
            .defaults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if defaults.contains(&Some(stream)) {
            return Err(Fault::invalid(OPERATION, "a default stream is never destroyed").into());
        }
        let gone = self.streams.remove(OPERATION, stream)?;
        if let Some(last) = gone.last()? {
            let queue = gone.queue.word();
            self.deferred.keep(queue, last, gone, is_over);
        }
        Ok(())
    }

    fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        let stream = self.stream(stream, "stream_synchronize")?;
        let ended = stream.synchronize(limit(timeout_ns));
        self.deferred.sweep_queue(stream.queue.word(), is_over);
        self.seen(ended, || late("stream_synchronize"))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        let stream = self.stream(stream, "stream_query")?;
        let now = stream.query();
        self.deferred.sweep_queue(stream.queue.word(), is_over);
        self.seen(now, || pending("stream_query"))
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        let stream = self.stream(stream, "stream_wait_event")?;
        let event = self.event(event, "stream_wait_event")?;
        event.make_wait(&stream).map_err(Error::from)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        const OPERATION: &str = "event_create";
        self.check(OPERATION)?;
        let event = Event::new(self.device(device, OPERATION)?);
        Ok(self.events.insert(OPERATION, event)?)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        let event = self.event(event, "event_record")?;
        let stream = self.stream(stream, "event_record")?;
        event.record(&stream).map_err(Error::from)
    }

    fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        let event = self.event(event, "event_query")?;
        self.seen(event.query(), || pending("event_query"))
    }

    fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        let event = self.event(event, "event_synchronize")?;
        let ended = event.synchronize(limit(timeout_ns));
        self.seen(ended, || late("event_synchronize"))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        const OPERATION: &str = "event_destroy";
        // Other threads may be waiting for the event. One that cannot be completed lives on.
        self.event(event, OPERATION)?.abandon()?;
        let gone = self.events.remove(OPERATION, event)?;
        // The host waited for it, perhaps to know that earlier frees are over.
        if let Some(queue) = gone.queue() {
            self.deferred.sweep_queue(queue, is_over);
        }
        Ok(())
    }
}

impl Wrap for OpenCl {
    unsafe fn stream_wrap(&self, device: u32, native: u64) -> Result<StreamHandle, Error> {
        const OPERATION: &str = "stream_wrap";
        self.check(OPERATION)?;
        let device = self.device(device, OPERATION)?;
        let word = usize::try_from(native).unwrap_or(0);
        if word < FIRST_ADDRESS {
            let why = format!("{native} is no command queue");
            return Err(Fault::invalid(OPERATION, why).into());
        }
        let raw = std::ptr::with_exposed_provenance_mut(word);
        if !can_be_object(device, raw) || self.pointers.by_handle(native).is_some() {
            return Err(Fault::invalid(OPERATION, "the word is no command queue").into());
        }
        // SAFETY: `wrap` needs a live command queue: the caller promises it.
        let stream = unsafe { Stream::wrap(device, raw) }?;
        Ok(self.streams.insert(OPERATION, stream)?)
    }
}

impl HostEvents for OpenCl {
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        const OPERATION: &str = "event_create_host";
        self.check(OPERATION)?;
        let event = Event::host(self.device(device, OPERATION)?)?;
        Ok(self.events.insert(OPERATION, event)?)
    }

    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        let event = self.event(event, "event_complete")?;
        let outcome = if status.is_ok() {
            Ok(())
        } else {
            let why =
                format!("another plugin's work, or the host, completed the event with `{status}`");
            let kind = Kind::Given(status.as_failure_of_work());
            Err(Fault::new(kind, "event_complete", why))
        };
        event.complete(outcome).map_err(Error::from)
    }
}

impl HostCalls for OpenCl {
    unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        const OPERATION: &str = "stream_host_call";
        self.check(OPERATION)?;
        // SAFETY: `new` needs a function that may be called once: the caller promises it.
        let call = unsafe { HostCall::new(OPERATION, function, word) }?;
        let stream = self.stream(stream, OPERATION)?;
        self.host_calls.queue(&stream, call).map_err(Error::from)
    }
}

impl Timing for OpenCl {
    fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error> {
        let start = self.event(start, "event_elapsed")?;
        let end = self.event(end, "event_elapsed")?;
        Event::elapsed(&start, &end)?.ok_or_else(|| pending("event_elapsed").into())
    }
}

impl AsyncMemory for OpenCl {
    fn allocate_async(&self, stream: StreamHandle, size: u64) -> Result<Address, Error> {
        let stream = self.stream(stream, "allocate_async")?;
        // Nobody knows the new memory yet, so there is nothing to wait for.
        self.allocate_on(&stream.device, MemoryKind::DEVICE, size, 1)
            .map_err(Error::from)
    }

    unsafe fn free_async(&self, stream: StreamHandle, address: Address) -> Result<(), Error> {
        const OPERATION: &str = "free_async";
        let stream = self.stream(stream, OPERATION)?;
        let command_event = stream.marker()?;
        if let Some(gone) = self.forget(address, MemoryKind::DEVICE, OPERATION)? {
            let queue = stream.queue.word();
            self.deferred.keep(queue, command_event, gone, is_over);
        }
        Ok(())
    }
}

impl OpenCl {
    fn stream(&self, handle: StreamHandle, operation: &'static str) -> Result<Arc<Stream>, Fault> {
        self.driver.driver_state.check(operation)?;
        Ok(self.streams.find(operation, handle)?)
    }

    fn event(&self, handle: EventHandle, operation: &'static str) -> Result<Arc<Event>, Fault> {
        self.driver.driver_state.check(operation)?;
        Ok(self.events.find(operation, handle)?)
    }

    /// Answers how far work is, and lets host functions run that wait behind a failure.
    fn seen(
        &self,
        progress: Result<Progress, Fault>,
        running: impl FnOnce() -> Fault,
    ) -> Result<(), Error> {
        match progress {
            Ok(Progress::Done) => Ok(()),
            Ok(Progress::Running) => Err(running().into()),
            Ok(Progress::Failed(fault)) => {
                self.host_calls.sweep();
                Err(fault.into())
            }
            Err(fault) => Err(fault.of_question().into()),
        }
    }

    fn default_of(&self, device: u32) -> Option<StreamHandle> {
        let defaults = self.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        defaults
            .get(usize::try_from(device).ok()?)
            .copied()
            .flatten()
    }

    /// Keeps `made` unless another thread was first; answers with the one that is kept.
    fn keep_default(&self, device: u32, made: StreamHandle) -> StreamHandle {
        let mut defaults = self.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = usize::try_from(device)
            .ok()
            .and_then(|device| defaults.get_mut(device));
        slot.map_or(made, |slot| *slot.get_or_insert(made))
    }
}

fn pending(operation: &'static str) -> Fault {
    Fault::new(Kind::NotReady, operation, "work is still pending")
}

fn late(operation: &'static str) -> Fault {
    Fault::new(
        Kind::Timeout,
        operation,
        "the work was not done within the limit",
    )
}
