//! The end of a stream: how far its work is, and waiting for it.
//!
//! A wait queries the stream. It records a marker only if other work may be put on the stream meanwhile. It records none
//! while another stream of the device waits for a pending host event (`host_waits`): on a shared hardware queue the
//! marker would stand behind that wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::current::Entered;
use crate::device::locked;
use crate::fault::Fault;
use crate::native::NativeEvent;
use crate::progress::{Progress, wait_until};
use crate::promise::Promises;
use crate::stream::Stream;
use crate::vendor::Vendor;
use crate::work::wait_for_stream;

/// A marker on a stream, and the host events that the work before it waits for.
#[derive(Debug)]
pub(crate) struct Marker<V: Vendor> {
    event: Arc<NativeEvent<V>>,
    host_events: Promises,
}

/// What a stream remembers of its markers.
#[derive(Debug)]
pub(crate) struct Markers<V: Vendor> {
    /// Counts the work that is put on the stream.
    entries: AtomicU64,
    /// The first marker behind the last work, and the count at that time.
    last: Mutex<Option<(u64, Arc<NativeEvent<V>>)>>,
    /// The marker that a wait did not reach before its limit.
    awaited: Mutex<Option<Arc<Marker<V>>>>,
}

impl<V: Vendor> Default for Markers<V> {
    fn default() -> Self {
        Self {
            entries: AtomicU64::new(0),
            last: Mutex::default(),
            awaited: Mutex::default(),
        }
    }
}

impl<V: Vendor> Markers<V> {
    /// Counts work, before it is put on the stream.
    pub(crate) fn count_entry(&self) {
        self.entries.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether work was ever put on the stream.
    pub(crate) fn has_entries(&self) -> bool {
        self.entries() > 0
    }

    fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    fn remember(&self, event: &Arc<NativeEvent<V>>) {
        let new = Some((self.entries(), Arc::clone(event)));
        let old = std::mem::replace(&mut *locked(&self.last), new);
        // Dropping the old one may call the driver, so the lock is released before.
        drop(old);
    }

    fn last(&self) -> Option<Arc<NativeEvent<V>>> {
        let (entries, event) = locked(&self.last).clone()?;
        (entries == self.entries()).then_some(event)
    }

    fn forget(&self) {
        let last = locked(&self.last).take();
        drop(last);
    }
}

impl<V: Vendor> Stream<V> {
    /// Remembers a marker that was recorded behind all work, in a call that submits.
    pub(crate) fn remember_marker(&self, event: &Arc<NativeEvent<V>>) {
        if !self.is_shown() {
            self.markers.remember(event);
        }
    }

    /// A marker behind all work that was recorded earlier: only on a stream that no other code uses.
    pub(crate) fn last_marker(&self) -> Option<Arc<NativeEvent<V>>> {
        let last = self.markers.last();
        last.filter(|_| !self.is_shown())
    }

    /// Whether all is over; a failure stays until it is synchronized.
    pub(crate) fn query(&self) -> Result<Progress, Fault> {
        let last = self.last_marker();
        let (_, now) = self.look("stream_query", last.as_deref())?;
        Ok(now.and(|| locked(&self.host_events).verdict()))
    }

    /// Makes the calling thread wait for all that is on the stream now. A failure is told once.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<Progress, Fault> {
        let (ended, host_events) = self.reach_end(limit)?;
        if !ended.is_over() {
            return Ok(ended);
        }
        locked(&self.host_events).forget(&host_events);
        if matches!(ended, Progress::Failed(_)) {
            self.markers.forget();
            self.forget_failure();
        }
        Ok(ended.and(|| host_events.verdict()))
    }

    /// Waits as `synchronize` does, but keeps the failure for a later call to report. Returns whether all is over.
    pub(crate) fn drain(&self, limit: Option<Duration>) -> Result<bool, Fault> {
        let (ended, _) = self.reach_end(limit)?;
        let is_over = ended.is_over();
        self.keep_failure(ended);
        Ok(is_over)
    }

    /// Waits for all work before the plugin is closed, also where the driver refuses queries. Where this fails, work may
    /// still run.
    pub(crate) fn drain_at_close(&self) -> Result<(), Fault> {
        let drained = self.drain(None).or_else(|_| self.drain(None));
        drained.map(drop).or_else(|fault| match fault.status {
            // No work of ours is on it.
            Status::CAPTURING if self.markers.entries() == 0 => Ok(()),
            // A wait would end the capture.
            Status::CAPTURING => Err(fault),
            // It ended with its context, or its end is unknown for ever.
            Status::STALE | Status::DEVICE_LOST => Ok(()),
            _ => {
                let inside = self.device.enter_to_end(self.context)?;
                wait_for_stream(&inside, self.raw).map(drop)
            }
        })
    }

    /// Records an event at the stream's current end that outlives the stream and its context. `None` if the stream is
    /// idle.
    pub(crate) fn end_for_good(
        &self,
        operation: &'static str,
    ) -> Result<Option<Arc<NativeEvent<V>>>, Fault> {
        let (inside, now) = self.look(operation, None)?;
        let running = !now.is_over();
        running
            .then(|| NativeEvent::record_for_good(self, &inside))
            .transpose()
    }

    /// Waits for all that is on the stream now. It goes on with the marker of a wait that was too short: however often
    /// threads wait for a stream that stands still, they leave one marker.
    fn reach_end(&self, limit: Option<Duration>) -> Result<(Progress, Promises), Fault> {
        let deadline = Deadline::after(limit);
        let older = locked(&self.markers.awaited).clone();
        if let Some(older) = older {
            let ended = self.reach(&older, deadline)?;
            if !ended.is_over() {
                return Ok((ended, Promises::default()));
            }
            // Reported once what came later is over too.
            self.keep_failure(ended);
        }
        let operation = "stream_synchronize";
        // The host events first: one that the stream waits for from now on is not among them, and one that is among them
        // makes an earlier marker an old one.
        let host_events = locked(&self.host_events).clone();
        let (entries, last) = (self.markers.entries(), self.last_marker());
        let is_left_alone = || !self.is_shown() && self.markers.entries() == entries;
        let reached = wait_until(deadline, || {
            // Anew each time: the device may be lost meanwhile, or the process exit.
            let (_, now) = self.look(operation, last.as_deref())?;
            if now.is_over() {
                return Ok(Some((now, None)));
            }
            // Without a limit the driver waits, which can report a deadlock.
            if limit == Some(Duration::ZERO) || (limit.is_some() && is_left_alone()) {
                return Ok(None);
            }
            let waits = &self.device.host_waits;
            let marked = waits.record_marker(&host_events, || self.mark(operation));
            Ok(marked.transpose()?.map(|marker| (now, Some(marker))))
        })?;
        match reached.unwrap_or((Progress::Running, None)) {
            (now, None) => Ok((now, host_events)),
            (_, Some(marker)) => {
                let new = Some(Arc::clone(&marker));
                let old = std::mem::replace(&mut *locked(&self.markers.awaited), new);
                drop(old);
                Ok((self.reach(&marker, deadline)?, marker.host_events.clone()))
            }
        }
    }

    fn mark(&self, operation: &'static str) -> Result<Arc<Marker<V>>, Fault> {
        let inside = self.admit(operation)?;
        // Before the marker, which is not behind what the stream waits for from now on.
        let host_events = locked(&self.host_events).clone();
        let event = NativeEvent::record(&self.device, &inside, self.context, self.raw)?;
        Ok(Arc::new(Marker { event, host_events }))
    }

    fn reach(&self, marker: &Arc<Marker<V>>, deadline: Deadline) -> Result<Progress, Fault> {
        let ended = marker.event.wait(deadline)?;
        if ended.is_over() {
            let is_it = |one: &mut Arc<Marker<V>>| Arc::ptr_eq(one, marker);
            let passed = locked(&self.markers.awaited).take_if(is_it);
            drop(passed);
        }
        Ok(ended)
    }

    fn keep_failure(&self, ended: Progress) {
        if let Progress::Failed(fault) = ended {
            locked(&self.host_events).put_first(Promises::broken(fault));
        }
    }

    /// Queries the progress of the stream, or of its last marker if later markers may be queued behind a host event.
    /// Fails while the stream is captured.
    pub(crate) fn look(
        &self,
        operation: &'static str,
        last: Option<&NativeEvent<V>>,
    ) -> Result<(Entered<'_, V>, Progress), Fault> {
        let inside = self.enter(operation)?;
        self.refuse_capture(&inside, operation)?;
        let now = Progress::ask(&inside, |vendor| vendor.query_stream(self.raw))?;
        let now = match last {
            Some(last) if now == Progress::Running => last.progress_in_front(now)?,
            _ => now,
        };
        Ok((inside, now))
    }
}
