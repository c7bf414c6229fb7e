//! The hooks for streams, events, host functions and times.
#![expect(unsafe_code, reason = "a host function is a C function")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock_sdk::abi::{DefaultStream, EventHandle, HostFunction, Status, StreamHandle};
use crossdock_sdk::deadline::limit;
use crossdock_sdk::plugin::{Error, HostCall, HostCalls, HostEvents, Streams, Timing, Wrap};
use crossdock_sim_engine::{self as sim, Site};

use crate::answer::{queried, refused};
use crate::plugin::Asynchronous;

/// What a handle of the host's stands for: a stream of the engine, perhaps beside other handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostStream {
    pub(crate) stream: sim::Stream,
    pub(crate) device: u32,
    /// Whether destroying the handle destroys the stream.
    pub(crate) is_owned: bool,
}

/// An event, and what the host may do with it.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) event: sim::Event,
    by_host: bool,
    is_recorded: AtomicBool,
}

impl Asynchronous {
    /// The stream of a handle.
    pub(crate) fn host_stream(
        &self,
        operation: &'static str,
        handle: StreamHandle,
    ) -> Result<HostStream, Error> {
        self.check_alive(operation)?;
        Ok(*self.streams.find(operation, handle)?)
    }

    /// The stream that work is for; none asks for it at once.
    pub(crate) fn work_stream(
        &self,
        operation: &'static str,
        handle: StreamHandle,
    ) -> Result<Option<HostStream>, Error> {
        self.check_open(operation)?;
        if handle.is_none() {
            return Ok(None);
        }
        self.host_stream(operation, handle).map(Some)
    }

    fn point(&self, operation: &'static str, handle: EventHandle) -> Result<Arc<Point>, Error> {
        self.check_alive(operation)?;
        Ok(self.events.find(operation, handle)?)
    }

    fn keep_event(
        &self,
        operation: &'static str,
        made: Result<sim::Event, sim::Error>,
        by_host: bool,
    ) -> Result<EventHandle, Error> {
        let event = made.map_err(|error| refused(operation, &error))?;
        let point = Point {
            event,
            by_host,
            is_recorded: AtomicBool::new(false),
        };
        Ok(self.events.insert(operation, point)?)
    }
}

impl Streams for Asynchronous {
    fn stream_create(&self, device: u32) -> Result<StreamHandle, Error> {
        let operation = "stream_create";
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        let made = self.engine.create_stream(Site::new(operation), device);
        let stream = made.map_err(|error| refused(operation, &error))?;
        let host_stream = HostStream {
            stream,
            device,
            is_owned: true,
        };
        Ok(self.streams.insert(operation, host_stream)?)
    }

    fn stream_default(&self, device: u32, which: DefaultStream) -> Result<StreamHandle, Error> {
        let operation = "stream_default";
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        let index = usize::try_from(device).ok();
        let stream = index.and_then(|index| self.defaults.get(index));
        match (which, stream) {
            (DefaultStream::LEGACY, Some(stream)) => Ok(*stream),
            _ => Err(Error::unsupported(operation)),
        }
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        let host_stream = self.host_stream("stream_native", stream)?;
        Ok(NATIVE | host_stream.stream.raw())
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_destroy";
        self.check_alive(operation)?;
        if self.defaults.contains(&stream) {
            let why = "the default stream is the device's own";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        let destroyed = self.streams.remove_after(operation, stream, |host_stream| {
            if !host_stream.is_owned {
                return Ok(());
            }
            let ended = self
                .engine
                .destroy_stream(Site::new(operation), host_stream.stream);
            ended.map_err(|error| refused(operation, &error))
        });
        destroyed.map(drop)
    }

    fn stream_synchronize(&self, stream: StreamHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "stream_synchronize";
        let host_stream = self.host_stream(operation, stream)?;
        let site = Site::new(operation);
        let waited = self
            .engine
            .synchronize_stream(site, host_stream.stream, limit(timeout_ns));
        waited.map_err(|error| refused(operation, &error))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        let operation = "stream_query";
        let host_stream = self.host_stream(operation, stream)?;
        queried(
            operation,
            self.engine
                .query_stream(Site::new(operation), host_stream.stream),
        )
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Error> {
        let operation = "stream_wait_event";
        self.check_open(operation)?;
        let (host_stream, point) = (
            self.host_stream(operation, stream)?,
            self.point(operation, event)?,
        );
        let submitted = self
            .engine
            .wait(Site::new(operation), host_stream.stream, point.event);
        submitted.map_err(|error| refused(operation, &error))
    }

    fn event_create(&self, device: u32) -> Result<EventHandle, Error> {
        let operation = "event_create";
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        let made = self.engine.create_event(Site::new(operation), device);
        self.keep_event(operation, made, false)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Error> {
        let operation = "event_record";
        self.check_open(operation)?;
        let (point, host_stream) = (
            self.point(operation, event)?,
            self.host_stream(operation, stream)?,
        );
        if point.by_host {
            let why = "the host completes this event";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        let recorded = self
            .engine
            .record(Site::new(operation), point.event, host_stream.stream);
        recorded.map_err(|error| refused(operation, &error))?;
        point.is_recorded.store(true, Ordering::Release);
        Ok(())
    }

    fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_query";
        let point = self.point(operation, event)?;
        queried(
            operation,
            self.engine.query_event(Site::new(operation), point.event),
        )
    }

    fn event_synchronize(&self, event: EventHandle, timeout_ns: u64) -> Result<(), Error> {
        let operation = "event_synchronize";
        let point = self.point(operation, event)?;
        let site = Site::new(operation);
        let waited = self
            .engine
            .synchronize_event(site, point.event, limit(timeout_ns));
        waited.map_err(|error| refused(operation, &error))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<(), Error> {
        let operation = "event_destroy";
        self.check_alive(operation)?;
        let destroyed = self.events.remove_after(operation, event, |point| {
            let ended = self.engine.destroy_event(Site::new(operation), point.event);
            ended.map_err(|error| refused(operation, &error))
        });
        destroyed.map(drop)
    }
}

impl Wrap for Asynchronous {
    unsafe fn stream_wrap(&self, device: u32, native: u64) -> Result<StreamHandle, Error> {
        let operation = "stream_wrap";
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        let named = |host_stream: &Arc<HostStream>| NATIVE | host_stream.stream.raw() == native;
        let known = self.streams.all().into_iter().find(named);
        let known = known.filter(|host_stream| host_stream.device == device);
        let host_stream = known.ok_or_else(|| {
            let why = format!("{native:#x} is no live stream of device {device}");
            Error::new(Status::INVALID, operation, why)
        })?;
        let wrapped = HostStream {
            is_owned: false,
            ..*host_stream
        };
        Ok(self.streams.insert(operation, wrapped)?)
    }
}

impl HostEvents for Asynchronous {
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        let operation = "event_create_host";
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        let made = self.engine.create_host_event(Site::new(operation), device);
        self.keep_event(operation, made, true)
    }

    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        let operation = "event_complete";
        let point = self.point(operation, event)?;
        if !point.by_host {
            let why = "a stream completes this event";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        let outcome = if status.is_ok() {
            Ok(())
        } else {
            Err(status.as_failure_of_work().raw())
        };
        let completed = self
            .engine
            .complete(Site::new(operation), point.event, outcome);
        completed.map_err(|error| refused(operation, &error))
    }
}

impl HostCalls for Asynchronous {
    unsafe fn stream_host_call(
        &self,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        let operation = "stream_host_call";
        self.check_open(operation)?;
        let host_stream = self.host_stream(operation, stream)?;
        // SAFETY: the caller lets the function be called once with its word on any thread.
        let call = unsafe { HostCall::new(operation, function, word) }?;
        let submitted = self.engine.host_call(
            Site::new(operation),
            host_stream.stream,
            Box::new(move || call.run()),
        );
        submitted.map_err(|error| refused(operation, &error))
    }
}

impl Timing for Asynchronous {
    fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> Result<u64, Error> {
        let operation = "event_elapsed";
        let (start, end) = (self.point(operation, start)?, self.point(operation, end)?);
        let is_recorded = |point: &Point| point.is_recorded.load(Ordering::Acquire);
        if !is_recorded(&start) || !is_recorded(&end) {
            let why = "an event was never recorded";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        for point in [&start, &end] {
            match self.engine.query_event(Site::new(operation), point.event) {
                // Work that failed took its time too.
                Err(sim::Error::Failed(_)) => {}
                answer => queried(operation, answer)?,
            }
        }
        let elapsed = self
            .engine
            .elapsed_ns(Site::new(operation), start.event, end.event);
        elapsed.map_err(|error| refused(operation, &error))
    }
}

/// Makes a stream's integer unlike every handle, index and number of a default stream.
const NATIVE: u64 = 0x5349_4d00_0000_0000;
