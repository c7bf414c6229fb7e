//! The hooks that order work: streams, events, host functions, times, and memory in their order.
#![expect(
    unsafe_code,
    reason = "streams of others and host functions arrive as plain words"
)]

use std::ffi::c_void;
use std::sync::Arc;

use crossdock_sdk::abi::{
    Address, DefaultStream, EventHandle, HostFunction, MemoryKind, Status, StreamHandle,
};
use crossdock_sdk::deadline::limit;
use crossdock_sdk::plugin::{
    AsyncMemory, Error, HostCall, HostCalls, HostEvents, Streams, Timing, Wrap,
};

use crate::device::locked;
use crate::event::Event;
use crate::fault::Fault;
use crate::memory::{Allocation, gone_with_its_device};
use crate::plugin::Gpu;
use crate::pool::Freeing;
use crate::progress::Progress;
use crate::stream::Stream;
use crate::vendor::Vendor;

/// Words below this are no objects of the driver: no process has the page at 0.
const FIRST_ADDRESS: u64 = 4096;

impl<V: Vendor> Streams for Gpu<V> {
    fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        let operation = "stream_create";
        self.check(operation)?;
        let stream = Stream::create(self.device(device, operation)?)?;
        Ok(self.streams.insert(operation, stream)?)
    }

    fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error> {
        let operation = "stream_default";
        self.check(operation)?;
        if which != DefaultStream::LEGACY {
            return Err(Error::unsupported(operation));
        }
        let owner = self.device(device, operation)?;
        let at = usize::try_from(device).unwrap_or(usize::MAX);
        let known = locked(&self.defaults).get(at).copied().flatten();
        if let Some(known) = known {
            return Ok(known);
        }
        // No lock is held over the driver's call: of two threads at once, one drops what it made.
        let made = self.streams.insert(operation, Stream::of_device(owner)?)?;
        let kept = {
            let mut defaults = locked(&self.defaults);
            defaults
                .get_mut(at)
                .map_or(made, |slot| *slot.get_or_insert(made))
        };
        if kept != made {
            drop(self.streams.remove(operation, made)?);
        }
        Ok(kept)
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        Ok(self.stream(stream, "stream_native")?.show())
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_destroy";
        self.driver.process.check(operation)?;
        if locked(&self.defaults).contains(&Some(stream)) {
            return Err(Fault::invalid(operation, "a default stream is never destroyed").into());
        }
        // Held from here on, so that a trim finds the stream or what it leaves.
        let _asking = locked(&self.asking);
        let gone = self.streams.remove(operation, stream)?;
        gone.remember_work();
        drop(gone);
        Ok(())
    }

    fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "stream_synchronize";
        let stream = self.stream(stream, operation)?;
        let late = || Fault::new(Status::TIMEOUT, operation, LATE);
        seen(stream.synchronize(limit(timeout_ns)), late)
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_query";
        let stream = self.stream(stream, operation)?;
        seen(stream.query(), || pending(operation))
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        let operation = "stream_wait_event";
        let stream = self.stream(stream, operation)?;
        let event = self.event(event, operation)?;
        Ok(event.make_wait(&stream)?)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        let operation = "event_create";
        self.check(operation)?;
        let event = Event::new(self.device(device, operation)?);
        Ok(self.events.insert(operation, event)?)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        let operation = "event_record";
        let event = self.event(event, operation)?;
        let stream = self.stream(stream, operation)?;
        Ok(event.record(&stream)?)
    }

    fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_query";
        let event = self.event(event, operation)?;
        seen(event.query(), || pending(operation))
    }

    fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "event_synchronize";
        let event = self.event(event, operation)?;
        let late = || Fault::new(Status::TIMEOUT, operation, LATE);
        seen(event.synchronize(limit(timeout_ns)), late)
    }

    fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_destroy";
        // Other threads may be waiting for the event: they fail now.
        self.event(event, operation)?.abandon();
        drop(self.events.remove(operation, event)?);
        Ok(())
    }
}

impl<V: Vendor> Wrap for Gpu<V> {
    unsafe fn stream_wrap(&self, device: u32, native: u64) -> Result<StreamHandle, Error> {
        let operation = "stream_wrap";
        self.check(operation)?;
        let device = self.device(device, operation)?;
        let stream = if V::DEFAULT_STREAMS.contains(&native) {
            Stream::of_device(device)?
        } else if native == V::PER_THREAD_DEFAULT_STREAM {
            let why = "the default stream of a thread is reached from that thread alone";
            return Err(Fault::unsupported(operation, why).into());
        } else if native < FIRST_ADDRESS {
            let defaults = V::DEFAULT_STREAMS;
            let why = format!(
                "{native} is no stream: give a stream's handle, \
                 or a default stream's number (one of {defaults:?})"
            );
            return Err(Fault::invalid(operation, why).into());
        } else {
            // SAFETY: `wrap` needs a live stream: the caller promises it.
            unsafe { Stream::wrap(device, native) }?
        };
        Ok(self.streams.insert(operation, stream)?)
    }
}

impl<V: Vendor> HostEvents for Gpu<V> {
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        let operation = "event_create_host";
        self.check(operation)?;
        let device = self.device(device, operation)?;
        if !device.facts.has_wait_value32 {
            let why = "the driver's streams do not wait for words in memory";
            return Err(Fault::unsupported(operation, why).into());
        }
        Ok(self.events.insert(operation, Event::host(device)?)?)
    }

    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        let operation = "event_complete";
        let event = self.event(event, operation)?;
        let outcome = if status.is_ok() {
            Ok(())
        } else {
            let why =
                format!("another plugin's work, or the host, completed the event with `{status}`");
            Err(Fault::new(status.as_failure_of_work(), operation, why))
        };
        Ok(event.complete(outcome)?)
    }
}

impl<V: Vendor> HostCalls for Gpu<V> {
    unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        let operation = "stream_host_call";
        self.check(operation)?;
        // SAFETY: `new` needs a function that may be called once: the caller promises it.
        let call = unsafe { HostCall::new(operation, function, word) }?;
        let stream = self.stream(stream, operation)?;
        let inside = stream.submit(operation)?;
        let calls = &stream.device.calls;
        Ok(calls.put(&inside, stream.raw, Box::new(move || call.run()))?)
    }
}

impl<V: Vendor> Timing for Gpu<V> {
    fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error> {
        let operation = "event_elapsed";
        let start = self.event(start, operation)?;
        let end = self.event(end, operation)?;
        Event::elapsed(&start, &end)?.ok_or_else(|| pending(operation).into())
    }
}

impl<V: Vendor> AsyncMemory for Gpu<V> {
    fn allocate_async(&self, stream: StreamHandle, size: u64) -> Result<Address, Error> {
        let operation = "allocate_async";
        self.check(operation)?;
        let stream = self.stream(stream, operation)?;
        let made = Allocation::make_on(&stream, size)?;
        Ok(self.add_allocation(operation, made)?)
    }

    unsafe fn free_async(&self, stream: StreamHandle, address: Address) -> Result<(), Error> {
        let operation = "free_async";
        let stream = self.stream(stream, operation)?;
        // Where the stream takes no work, this fails before the memory is forgotten. A captured stream cannot free, and
        // the capture may last: by UNSUPPORTED the memory stays the host's, which frees it another way.
        let submitted = stream
            .submit(operation)
            .map_err(|fault| match fault.status {
                Status::CAPTURING => fault.with_status(Status::UNSUPPORTED),
                _ => fault,
            });
        drop(submitted?);
        let gone = self.forget(address, MemoryKind::DEVICE, operation)?;
        let freed = gone.free_on(&stream);
        match &freed {
            Ok(Some(point)) => locked(&self.freeing).push(Freeing {
                point: Arc::clone(point),
                device: Arc::clone(&gone.device),
                bytes: gone.counted(),
            }),
            // Counted already, or by the host function that gives it back.
            Ok(None) => {}
            Err(_) => gone.device.counts.remove(gone.counted()),
        }
        Ok(gone_with_its_device(freed.map(drop))?)
    }
}

impl<V: Vendor> Gpu<V> {
    /// The stream behind a handle; none for a synchronous call.
    pub(crate) fn stream_for(
        &self,
        handle: StreamHandle,
        operation: &'static str,
    ) -> Result<Option<Arc<Stream<V>>>, Fault> {
        if handle.is_none() {
            return Ok(None);
        }
        self.stream(handle, operation).map(Some)
    }

    fn stream(
        &self,
        handle: StreamHandle,
        operation: &'static str,
    ) -> Result<Arc<Stream<V>>, Fault> {
        self.driver.process.check(operation)?;
        Ok(self.streams.find(operation, handle)?)
    }

    fn event(&self, handle: EventHandle, operation: &'static str) -> Result<Arc<Event<V>>, Fault> {
        self.driver.process.check(operation)?;
        Ok(self.events.find(operation, handle)?)
    }
}

/// Answers how far work is.
fn seen(progress: Result<Progress, Fault>, running: impl FnOnce() -> Fault) -> Result<(), Error> {
    match progress? {
        Progress::Done => Ok(()),
        Progress::Running => Err(running().into()),
        Progress::Failed(fault) => Err(fault.into()),
    }
}

fn pending(operation: &'static str) -> Fault {
    Fault::new(Status::NOT_READY, operation, "work is still pending")
}

const LATE: &str = "the work was not done within the limit";
