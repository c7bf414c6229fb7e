//! Streams: of ours, of others, and the device's default one.
#![expect(unsafe_code, reason = "streams of others arrive as plain words")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crossdock_sdk::abi::Status;
use crossdock_sdk::log;

use crate::TARGET;
use crate::bounce::Bounce;
use crate::current::Entered;
use crate::device::{Device, locked};
use crate::ended_streams::EndedStream;
use crate::event::Point;
use crate::fault::Fault;
use crate::native::{NativeEvent, at_home};
use crate::progress::Progress;
use crate::promise::Promises;
use crate::stream_wait::Markers;
use crate::vendor::Vendor;
use crate::word::Word;

/// An ordered queue of work of one device.
#[derive(Debug)]
pub(crate) struct Stream<V: Vendor> {
    pub(crate) device: Arc<Device<V>>,
    pub(crate) raw: u64,
    /// The context that its work is done in.
    pub(crate) context: u64,
    is_own: bool,
    /// Whether others know its native handle, and so may capture it.
    is_shown: AtomicBool,
    pub(crate) markers: Markers<V>,
    /// The host events that its work waits for.
    pub(crate) host_events: Mutex<Promises>,
    /// Pinned memory for copies of pageable memory.
    pub(crate) bounce: Mutex<Bounce<V>>,
}

impl<V: Vendor> Stream<V> {
    /// A stream of its own.
    pub(crate) fn create(device: &Arc<Device<V>>) -> Result<Self, Fault> {
        let home = device.home("stream_create")?;
        let inside = Entered::new(device, home.context)?;
        let raw = inside.ask(Vendor::create_stream)?;
        Ok(Self::new(device, raw, home.context, true))
    }

    /// The device's default stream, in its primary context.
    pub(crate) fn of_device(device: &Arc<Device<V>>) -> Result<Self, Fault> {
        let home = device.home("stream_default")?;
        Ok(Self::new(device, V::DEFAULT_STREAM, home.context, false))
    }

    /// A stream of others.
    ///
    /// # Safety
    /// - `raw` is a live stream of the vendor's.
    pub(crate) unsafe fn wrap(device: &Arc<Device<V>>, raw: u64) -> Result<Self, Fault> {
        let operation = "stream_wrap";
        let inside = device.enter(operation)?;
        // SAFETY: the caller promises a live stream.
        let found = inside.ask(|vendor| unsafe { vendor.context_of(raw) });
        let (context, ordinal) = found.map_err(|fault| match fault.status {
            Status::STALE => fault.with_status(Status::INVALID),
            _ => fault,
        })?;
        if ordinal != device.ordinal {
            let why = format!(
                "the stream belongs to device {ordinal} of the driver: wrap it for that one"
            );
            return Err(Fault::invalid(operation, why));
        }
        Ok(Self::new(device, raw, context, false))
    }

    fn new(device: &Arc<Device<V>>, raw: u64, context: u64, is_own: bool) -> Self {
        Self {
            device: Arc::clone(device),
            raw,
            context,
            is_own,
            is_shown: AtomicBool::new(!is_own),
            markers: Markers::default(),
            host_events: Mutex::default(),
            bounce: Mutex::default(),
        }
    }

    /// Whether it was made here, and so lives until it is ended here.
    pub(crate) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// The native handle. From now on others may use the stream.
    pub(crate) fn show(&self) -> u64 {
        self.is_shown.store(true, Ordering::Release);
        self.raw
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown.load(Ordering::Acquire)
    }

    /// Makes the stream's context current, for a question.
    pub(crate) fn enter(&self, operation: &'static str) -> Result<Entered<'_, V>, Fault> {
        self.device.enter_in(self.context, operation)
    }

    /// Makes the stream's context current, to put work on the stream. Refused while the stream is captured.
    pub(crate) fn submit(&self, operation: &'static str) -> Result<Entered<'_, V>, Fault> {
        let inside = self.admit(operation)?;
        self.markers.count_entry();
        Ok(inside)
    }

    /// The same to record a marker, which is no work.
    pub(crate) fn admit(&self, operation: &'static str) -> Result<Entered<'_, V>, Fault> {
        let inside = self.enter(operation)?;
        if self.is_shown() && inside.ask(|vendor| vendor.is_capturing(self.raw))? {
            let why = "its owner captures the stream, and would repeat this work without \
                       Crossdock's knowledge; end the capture first";
            return Err(Fault::new(Status::CAPTURING, operation, why));
        }
        Ok(inside)
    }

    /// Marks the present end.
    pub(crate) fn record(&self, operation: &'static str) -> Result<Point<V>, Fault> {
        let inside = self.admit(operation)?;
        let timed = NativeEvent::record(&self.device, &inside, self.context, self.raw)?;
        let event = self.last_marker().unwrap_or_else(|| {
            self.remember_marker(&timed);
            Arc::clone(&timed)
        });
        Ok(Point::new(event, timed, locked(&self.host_events).clone()))
    }

    /// Makes all later work of the stream wait for a point of another stream.
    pub(crate) fn wait_point(&self, point: &Point<V>) -> Result<(), Fault> {
        let inside = self.submit("stream_wait_event")?;
        point.event.hold(&inside, self.raw)?;
        locked(&self.host_events).join(&point.host_events);
        Ok(())
    }

    /// Makes all later work of the stream wait until the host writes a word, which is memory of a device.
    pub(crate) fn wait_host_event(
        &self,
        word: Option<Word>,
        of: &Arc<Device<V>>,
        promises: &Promises,
    ) -> Result<(), Fault> {
        let inside = self.submit("stream_wait_event")?;
        if let Some(word) = word {
            let (address, value) = (word.address, word.value);
            // SAFETY: the word is pinned memory of `of`, which is freed at the close only. That completes all host events
            // first, and the driver's free waits for the work of `of`. The close waits for a stream of another device
            // too: it drains those that exist, and waits for those that have ended (`ended_streams.rs`).
            let wait =
                || inside.ask(|vendor| unsafe { vendor.wait_value32(self.raw, address, value) });
            self.device.host_waits.submit(promises, wait)?;
            if !Arc::ptr_eq(of, &self.device) && !self.is_own {
                // Nobody here is told when its owner destroys it.
                self.remember_wait(&inside);
            }
        }
        locked(&self.host_events).join(promises);
        Ok(())
    }

    /// Refuses a question about a captured stream: asking the driver would end the capture.
    pub(crate) fn refuse_capture(
        &self,
        inside: &Entered<'_, V>,
        operation: &'static str,
    ) -> Result<(), Fault> {
        if self.is_shown() && inside.ask(|vendor| vendor.is_capturing(self.raw))? {
            let why = "its owner captures the stream";
            return Err(Fault::new(Status::CAPTURING, operation, why));
        }
        Ok(())
    }

    /// Makes the close wait for what is on the stream now, which may be gone by then.
    pub(crate) fn remember_end(&self, inside: &Entered<'_, V>) -> Result<(), Fault> {
        let remember = || {
            self.refuse_capture(inside, "event_record")?;
            at_home(self, inside, |at_home, (_, end)| {
                self.device.remember_end(at_home, end)
            })
        };
        remember().or_else(|_| remember())
    }

    /// Makes a trim of blocks wait for work that was put on a stream of others, which may be gone by then.
    pub(crate) fn remember_work(&self) {
        let has_blocks = self
            .device
            .known_home()
            .is_some_and(|home| home.pool.is_none());
        if self.is_own || !has_blocks || !self.markers.has_entries() {
            return;
        }
        let remember = || {
            let (inside, now) = self.look("stream_destroy", None)?;
            if now.is_over() {
                return Ok(());
            }
            self.remember_end(&inside)
        };
        if let Err(fault) = remember().or_else(|_: Fault| remember()) {
            log::warn!(target: TARGET, "a trim does not wait for this stream: {fault}");
        }
    }

    /// The same for a word of another device that the stream waits for.
    fn remember_wait(&self, inside: &Entered<'_, V>) {
        if let Err(fault) = self.remember_end(inside) {
            log::warn!(target: TARGET, "the close does not wait for this stream: {fault}");
        }
    }

    /// Makes the driver forget a failure that was reported, unless the stream has new work, or a capture by now.
    pub(crate) fn forget_failure(&self) {
        let operation = "stream_synchronize";
        let Ok(inside) = self.enter(operation) else {
            return;
        };
        if self.refuse_capture(&inside, operation).is_err() {
            return;
        }
        let now = Progress::ask(&inside, |vendor| vendor.query_stream(self.raw));
        if now.is_ok_and(|now| now.is_over()) {
            // The work is over, so this does not wait; what it answers was reported already.
            let _told = inside.vendor().synchronize_stream(self.raw);
        }
    }
}

impl<V: Vendor> Drop for Stream<V> {
    fn drop(&mut self) {
        if !self.is_own && !self.has_bounce() {
            return;
        }
        if self.device.check("stream_destroy").is_err() {
            return;
        }
        match self.device.enter_to_end(self.context) {
            Ok(inside) => {
                self.end_bounce(&inside);
                if self.is_own {
                    let ended = EndedStream::new(self.raw, self.is_shown());
                    self.device.end_stream(&inside, self.context, ended);
                }
            }
            Err(fault) => self.abandon(&fault),
        }
    }
}
