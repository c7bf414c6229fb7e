//! What a stream has to do, the thread that does it, and events: points that it passes.
//!
//! Work of this device cannot fail. But an event that the host completes with a failure makes those fail that wait for
//! it, as the contract has it: a stream keeps the first failure until somebody who waits for it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::plugin::Error;
use crossdock_sdk::threads::Thread;

/// How work ended: with one of the statuses for work that failed.
pub(crate) type Outcome = Result<(), Status>;

/// A stream. Dropping it lets what was submitted finish.
pub(crate) struct Stream(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    /// How many steps were ever submitted, and how many of them are over.
    submitted: u64,
    over: u64,
    /// The first failure of which nobody was told.
    failure: Option<Status>,
    /// Nothing more will be submitted.
    is_closed: bool,
    /// Nothing more is begun.
    is_stopped: bool,
}

enum Step {
    Work(Box<dyn FnOnce() + Send>),
    /// Happens with the stream's failure, if it has one.
    Record(Arc<Point>),
    /// Its failure becomes the stream's.
    Wait(Arc<Point>),
}

impl Stream {
    /// A stream with a thread of its own, which ends once the stream was dropped and its work is over.
    pub(crate) fn start() -> Result<(Self, JoinHandle<()>), Error> {
        let queue = Arc::<Queue>::default();
        let runs = Arc::clone(&queue);
        let started = Thread::named("example stream").spawn(move || runs.run());
        let thread = started
            .map_err(|error| Error::new(Status::OOM_HOST, "stream_create", error.to_string()))?;
        Ok((Self(queue), thread))
    }

    /// Submits work.
    pub(crate) fn submit(
        &self,
        operation: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        self.push(operation, Step::Work(Box::new(work)))
    }

    /// Makes the event stand for the stream's present end.
    pub(crate) fn record(&self, event: &Event) -> Result<(), Error> {
        let point = Arc::<Point>::default();
        self.push("event_record", Step::Record(Arc::clone(&point)))?;
        *lock(&event.current) = Some(point);
        Ok(())
    }

    /// Makes what comes later wait for the event as it is now.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), Error> {
        match event.point() {
            Some(point) => self.push("stream_wait_event", Step::Wait(point)),
            None => Ok(()),
        }
    }

    /// How all ended that is on the stream now; `None` where it goes on after the deadline. A failure stays.
    pub(crate) fn end(&self, deadline: Deadline) -> Option<Outcome> {
        let state = lock(&self.0.state);
        let last = state.submitted;
        let goes_on = |state: &mut State| state.over < last;
        let state = deadline.wait_while(&self.0.changed, state, goes_on);
        (state.over >= last).then(|| state.failure.map_or(Ok(()), Err))
    }

    /// Forgets the failure that somebody was told.
    pub(crate) fn forget_failure(&self) {
        lock(&self.0.state).failure = None;
    }

    /// Begins nothing more.
    pub(crate) fn stop(&self) {
        lock(&self.0.state).is_stopped = true;
        self.0.changed.notify_all();
    }

    fn push(&self, operation: &'static str, step: Step) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        if state.is_stopped {
            return Err(Error::new(
                Status::EXITING,
                operation,
                "the process is exiting",
            ));
        }
        state.steps.push_back(step);
        state.submitted += 1;
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Queue {
    /// Does all work, in order, until there will be no more.
    fn run(&self) {
        while let Some((step, failure)) = self.next() {
            // No lock is held: work may take long, and a host function is code of others.
            let ended = match step {
                Step::Work(work) => {
                    work();
                    Ok(())
                }
                Step::Record(point) => {
                    point.happen(failure.map_or(Ok(()), Err));
                    Ok(())
                }
                Step::Wait(point) => point.wait(Deadline::after(None)).unwrap_or(Ok(())),
            };
            let mut state = lock(&self.state);
            if let Err(status) = ended {
                state.failure.get_or_insert(status);
            }
            state.over += 1;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next step, with the failure before it; `None` when there is no other one.
    fn next(&self) -> Option<(Step, Option<Status>)> {
        let waits =
            |state: &mut State| state.steps.is_empty() && !state.is_closed && !state.is_stopped;
        let state = lock(&self.state);
        let mut state = Deadline::after(None).wait_while(&self.changed, state, waits);
        if state.is_stopped {
            return None;
        }
        let step = state.steps.pop_front()?;
        Some((step, state.failure))
    }
}

/// Something that happens once.
#[derive(Default)]
pub(crate) struct Point {
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
}

impl Point {
    /// Whether this was the first time; another one changes nothing.
    fn happen(&self, how: Outcome) -> bool {
        let mut outcome = lock(&self.outcome);
        if outcome.is_some() {
            return false;
        }
        *outcome = Some(how);
        drop(outcome);
        self.changed.notify_all();
        true
    }

    fn wait(&self, deadline: Deadline) -> Option<Outcome> {
        let is_pending = |outcome: &mut Option<Outcome>| outcome.is_none();
        *deadline.wait_while(&self.changed, lock(&self.outcome), is_pending)
    }
}

/// An event; recording it again makes it stand for another point.
pub(crate) struct Event {
    current: Mutex<Option<Arc<Point>>>,
    is_by_host: bool,
}

impl Event {
    /// An event that was never recorded, and so is complete.
    pub(crate) fn new() -> Self {
        Self {
            current: Mutex::default(),
            is_by_host: false,
        }
    }

    /// An event that is pending until the host completes it.
    pub(crate) fn pending() -> Self {
        Self {
            current: Mutex::new(Some(Arc::default())),
            is_by_host: true,
        }
    }

    pub(crate) fn is_by_host(&self) -> bool {
        self.is_by_host
    }

    /// Completes an event of the host's; whether it was one, and pending.
    pub(crate) fn complete(&self, outcome: Outcome) -> bool {
        let point = self.point().filter(|_| self.is_by_host);
        point.is_some_and(|point| point.happen(outcome))
    }

    /// Fails those who still wait for an event of the host's that nobody can complete any more.
    pub(crate) fn abandon(&self) {
        // One that is complete stays as it is.
        self.complete(Err(Status::VENDOR));
    }

    /// How it ended; `None` where it is pending after the deadline.
    pub(crate) fn end(&self, deadline: Deadline) -> Option<Outcome> {
        self.point()
            .map_or(Some(Ok(())), |point| point.wait(deadline))
    }

    fn point(&self) -> Option<Arc<Point>> {
        lock(&self.current).clone()
    }
}

/// No state behind these locks can be left half changed, so a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
