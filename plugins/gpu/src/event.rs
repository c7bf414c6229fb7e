//! Events: points in a stream that others wait for, and those that the host completes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::device::{Device, locked};
use crate::fault::Fault;
use crate::native::NativeEvent;
use crate::progress::{Progress, wait_until_over};
use crate::promise::{Promise, Promises};
use crate::stream::Stream;
use crate::vendor::Vendor;
use crate::word::Word;

/// An event of the contract: never recorded, a point in a stream, or one that the host completes.
#[derive(Debug)]
pub(crate) struct Event<V: Vendor> {
    pub(crate) device: Arc<Device<V>>,
    state: Mutex<State<V>>,
}

#[derive(Debug)]
enum State<V: Vendor> {
    Never,
    Recorded(Arc<Point<V>>),
    Host { word: Word, promise: Arc<Promise> },
}

/// A point in a stream.
#[derive(Debug)]
pub(crate) struct Point<V: Vendor> {
    /// The first marker behind the same work.
    pub(crate) event: Arc<NativeEvent<V>>,
    /// The marker of this point, which has its time.
    timed: Arc<NativeEvent<V>>,
    pub(crate) host_events: Promises,
    /// The outcome of the work before it, once it is known: every query answers it again.
    known: Mutex<Option<Progress>>,
}

impl<V: Vendor> Point<V> {
    pub(crate) fn new(
        event: Arc<NativeEvent<V>>,
        timed: Arc<NativeEvent<V>>,
        host_events: Promises,
    ) -> Self {
        Self {
            event,
            timed,
            host_events,
            known: Mutex::default(),
        }
    }

    fn progress(&self) -> Result<Progress, Fault> {
        match self.timed.progress()? {
            Progress::Running if self.is_behind() => {
                self.event.progress_in_front(Progress::Running)
            }
            now => Ok(now),
        }
    }

    fn wait(&self, deadline: Deadline) -> Result<Progress, Fault> {
        if self.is_behind() {
            return wait_until_over(deadline, || self.progress());
        }
        self.event.wait(deadline)
    }

    /// Whether an earlier marker is behind the same work.
    fn is_behind(&self) -> bool {
        !Arc::ptr_eq(&self.event, &self.timed)
    }

    /// Adds failures of host events, and keeps the answer once the work is over: then it does not change.
    fn keep(&self, now: Progress) -> Progress {
        let now = now.and(|| self.host_events.verdict());
        let mut known = locked(&self.known);
        if known.is_none() && now.is_over() {
            *known = Some(now.clone());
        }
        known.clone().unwrap_or(now)
    }

    fn look(&self, ask: impl FnOnce() -> Result<Progress, Fault>) -> Result<Progress, Fault> {
        let known = locked(&self.known).clone();
        match known {
            Some(known) => Ok(known),
            None => Ok(self.keep(ask()?)),
        }
    }
}

impl<V: Vendor> Event<V> {
    /// An event that was never recorded, and so is done.
    pub(crate) fn new(device: &Arc<Device<V>>) -> Self {
        Self {
            device: Arc::clone(device),
            state: Mutex::new(State::Never),
        }
    }

    /// An event that is pending until the host completes it.
    pub(crate) fn host(device: &Arc<Device<V>>) -> Result<Self, Fault> {
        device.check("event_create_host")?;
        let word = device.words.take(device)?;
        let promise = Arc::default();
        Ok(Self {
            device: Arc::clone(device),
            state: Mutex::new(State::Host { word, promise }),
        })
    }

    /// Marks the stream's present end.
    pub(crate) fn record(&self, stream: &Stream<V>) -> Result<(), Fault> {
        let operation = "event_record";
        if self.promised().is_some() {
            return Err(Fault::invalid(operation, "the host completes the event"));
        }
        let new = State::Recorded(Arc::new(stream.record(operation)?));
        let old = std::mem::replace(&mut *locked(&self.state), new);
        // Dropping the old one may call the driver, so it is dropped after the lock was let go.
        drop(old);
        Ok(())
    }

    /// Makes a stream wait for the event as it is now.
    pub(crate) fn make_wait(&self, stream: &Stream<V>) -> Result<(), Fault> {
        if let Some((word, promise)) = self.promised() {
            let is_open = promise.now().is_none();
            let word = is_open.then_some(word);
            return stream.wait_host_event(word, &self.device, &Promises::of(&promise));
        }
        self.recorded()
            .map_or(Ok(()), |point| stream.wait_point(&point))
    }

    /// How far the work before it is.
    pub(crate) fn query(&self) -> Result<Progress, Fault> {
        if let Some((_, promise)) = self.promised() {
            return Ok(of_promise(promise.now()));
        }
        let point = self.recorded();
        point.map_or(Ok(Progress::Done), |point| point.look(|| point.progress()))
    }

    /// Makes the calling thread wait, until the limit at most.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<Progress, Fault> {
        let deadline = Deadline::after(limit);
        if let Some((_, promise)) = self.promised() {
            return Ok(of_promise(promise.wait(deadline)));
        }
        let point = self.recorded();
        point.map_or(Ok(Progress::Done), |point| {
            point.look(|| point.wait(deadline))
        })
    }

    /// Lets everything go on that waits for a host event.
    pub(crate) fn complete(&self, outcome: Result<(), Fault>) -> Result<(), Fault> {
        let operation = "event_complete";
        let (word, promise) = self
            .promised()
            .ok_or_else(|| Fault::invalid(operation, "not an event of the host"))?;
        if self.tell(word, &promise, outcome) {
            Ok(())
        } else {
            Err(Fault::invalid(operation, "the event is complete already"))
        }
    }

    fn tell(&self, word: Word, promise: &Promise, outcome: Result<(), Fault>) -> bool {
        promise.complete(outcome, || self.device.words.complete(word))
    }

    /// Fails those who still wait for a host event, which nobody can complete any more.
    pub(crate) fn abandon(&self) {
        if let Some((word, promise)) = self.promised() {
            let why = "the event of the host was destroyed before it was completed";
            let abandoned = Fault::new(Status::VENDOR, "event_complete", why);
            // An event that is complete keeps its outcome.
            self.tell(word, &promise, Err(abandoned));
        }
    }

    /// Nanoseconds between two recorded events; `None` before both happened.
    pub(crate) fn elapsed(start: &Self, end: &Self) -> Result<Option<u64>, Fault> {
        let operation = "event_elapsed";
        let (Some(from), Some(to)) = (start.recorded(), end.recorded()) else {
            let why = "an event was never recorded on a stream";
            return Err(Fault::invalid(operation, why));
        };
        for event in [start, end] {
            match event.query()? {
                Progress::Done => {}
                Progress::Running => return Ok(None),
                Progress::Failed(fault) => return Err(fault),
            }
        }
        let milliseconds = from.timed.elapsed(&to.timed);
        let milliseconds = milliseconds.map_err(|fault| match fault.status {
            Status::STALE => fault.with_status(Status::INVALID),
            _ => fault,
        })?;
        let elapsed = Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3);
        let elapsed = elapsed.map_err(|_negative| {
            let why = "the second event happened before the first";
            Fault::invalid(operation, why)
        })?;
        Ok(Some(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// What the host completes, where this is such an event.
    fn promised(&self) -> Option<(Word, Arc<Promise>)> {
        match &*locked(&self.state) {
            State::Host { word, promise } => Some((*word, Arc::clone(promise))),
            State::Never | State::Recorded(_) => None,
        }
    }

    /// Where it was recorded, if it was.
    fn recorded(&self) -> Option<Arc<Point<V>>> {
        match &*locked(&self.state) {
            State::Recorded(point) => Some(Arc::clone(point)),
            State::Never | State::Host { .. } => None,
        }
    }
}

impl<V: Vendor> Drop for Event<V> {
    fn drop(&mut self) {
        // At close the program may not have destroyed it: streams that wait for it would hang.
        if self.device.driver.process.check("event_destroy").is_ok() {
            self.abandon();
        }
    }
}

fn of_promise(outcome: Option<Result<(), Fault>>) -> Progress {
    match outcome {
        None => Progress::Running,
        Some(Ok(())) => Progress::Done,
        Some(Err(fault)) => Progress::Failed(fault),
    }
}
