//! What a stream has to do, in order, and the turn to do it.
//!
//! The turn of a stream that is busy is in one place at a time: with the thread that runs it, in the
//! line of streams that wait for a thread, or with the event that the stream waits for. So a stream
//! that waits needs no thread: the thread that completes the event goes on with it, as far as that is no
//! work, and then has a thread run it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossdock_sdk::abi::Status;
use crossdock_sdk::fence::fence_with_message;

use crate::event::{Failure, Outcome, Signal};
use crate::threads::Threads;

/// A piece of work.
type Task = Box<dyn FnOnce() -> Outcome + Send>;

/// The work of one stream. It outlives the stream for as long as there is some.
pub(crate) struct Queue {
    state: Mutex<State>,
    threads: Arc<Threads>,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    /// How many of the steps are work.
    works: usize,
    /// Whether somebody has the turn. Nobody has where there are no steps.
    busy: bool,
    /// Whether there is a thread for what a busy stream takes.
    has_thread: bool,
    /// The first failure since the last report.
    failure: Option<Failure>,
}

enum Step {
    /// Needs a thread, for it may block.
    Work(Task),
    /// Fires with the stream's failure if it has one.
    Report(Arc<Signal>),
    /// Is over when this happened; its failure becomes the stream's.
    Wait(Arc<Signal>),
}

impl State {
    /// Keeps the first failure.
    fn note(&mut self, outcome: Outcome) {
        if let Err(failure) = outcome {
            self.failure.get_or_insert(failure.of_work());
        }
    }

    fn push_work(&mut self, task: Task) {
        self.steps.push_back(Step::Work(task));
        self.works += 1;
    }

    fn take_work(&mut self) -> Option<Task> {
        match self.steps.pop_front()? {
            Step::Work(task) => {
                self.works -= 1;
                Some(task)
            }
            Step::Report(_) | Step::Wait(_) => None,
        }
    }

    fn outcome(&self) -> Outcome {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Queue {
    pub(crate) fn new(threads: &Arc<Threads>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            threads: Arc::clone(threads),
        })
    }

    /// Takes work for a thread.
    ///
    /// # Errors
    /// `OOM_HOST`: the system has no thread for it; it was dropped.
    pub(crate) fn submit(self: &Arc<Self>, task: Task) -> Outcome {
        let mut state = self.state();
        if state.busy {
            if !state.has_thread {
                self.threads.start_first()?;
                state.has_thread = true;
            }
            state.push_work(task);
            return Ok(());
        }
        state.push_work(task);
        let called = self.threads.run(Arc::clone(self));
        state.busy = called.is_ok();
        let refused = called.is_err().then(|| state.take_work());
        drop(state);
        // What it owns may run code of others when it is dropped.
        drop(refused);
        if called? {
            self.threads.wake();
        }
        Ok(())
    }

    /// Does work here and now where the stream is idle; gives it back where it is busy.
    pub(crate) fn run_here<T: FnOnce() -> Outcome>(self: &Arc<Self>, task: T) -> Result<(), T> {
        let mut state = self.state();
        if state.busy {
            return Err(task);
        }
        state.busy = true;
        drop(state);
        let outcome = run(task);
        let mut woken = Woken::default();
        self.go_on(outcome, &mut woken);
        woken.go_on();
        Ok(())
    }

    /// Fires `signal` when all before it is over.
    pub(crate) fn report(self: &Arc<Self>, signal: Arc<Signal>) {
        self.push(Step::Report(signal));
    }

    /// Lets what comes later wait for `signal`.
    pub(crate) fn wait(self: &Arc<Self>, signal: Arc<Signal>) {
        self.push(Step::Wait(signal));
    }

    /// How all ended that was taken, or what tells of it.
    pub(crate) fn end(&self) -> Result<Outcome, Arc<Signal>> {
        let mut state = self.state();
        if !state.busy {
            return Ok(state.outcome());
        }
        if let Some(Step::Report(signal)) = state.steps.back() {
            // A caller that asks again and again leaves one step behind.
            return Err(Arc::clone(signal));
        }
        let signal = Arc::<Signal>::default();
        state.steps.push_back(Step::Report(Arc::clone(&signal)));
        Err(signal)
    }

    /// How all ended that was taken; `None` while some of it is running or to come.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let state = self.state();
        (!state.busy).then(|| state.outcome())
    }

    /// Forgets a failure that was told. Another may have come since: that one was not told yet.
    pub(crate) fn forget(&self, told: &Failure) {
        self.state().failure.take_if(|failure| failure == told);
    }

    /// Runs the stream until it is idle or waits. The calling thread has the turn, and may block.
    /// Whether it announced that it comes back.
    pub(crate) fn run(self: Arc<Self>) -> bool {
        let mut is_announced = false;
        let mut ended = Ok(());
        while let Some(task) = self.next(ended, &mut is_announced) {
            ended = run(task);
        }
        is_announced
    }

    /// The next work behind some that ended so; `None` where the turn is given up.
    fn next(self: &Arc<Self>, ended: Outcome, is_announced: &mut bool) -> Option<Task> {
        let mut woken = Woken::default();
        let mut state = self.state();
        state.note(ended);
        if state.works == 0 {
            // A thread that is told that all is over may submit more before this thread has come back.
            self.threads.announce();
            *is_announced = true;
        }
        let is_work = self.advance(&mut state, &mut woken);
        let task = is_work.then(|| state.take_work()).flatten();
        drop(state);
        woken.go_on();
        task
    }

    fn push(self: &Arc<Self>, step: Step) {
        let mut state = self.state();
        state.steps.push_back(step);
        if state.busy {
            return;
        }
        state.busy = true;
        drop(state);
        let mut woken = Woken::default();
        self.go_on(Ok(()), &mut woken);
        woken.go_on();
    }

    /// Goes on behind what ended so, and leaves work to a thread. The caller has the turn.
    fn go_on(self: &Arc<Self>, ended: Outcome, woken: &mut Woken) {
        let mut state = self.state();
        state.note(ended);
        let is_work = self.advance(&mut state, woken);
        drop(state);
        if is_work {
            self.threads.run_taken(Arc::clone(self));
        }
    }

    /// Takes the steps that are no work, up to one that is, to an event that is pending, which gets
    /// the turn, or to the end, where nobody has it. Whether there is work.
    fn advance(self: &Arc<Self>, state: &mut State, woken: &mut Woken) -> bool {
        loop {
            match state.steps.pop_front() {
                Some(work @ Step::Work(_)) => {
                    state.steps.push_front(work);
                    return true;
                }
                Some(Step::Report(signal)) => {
                    // A waiter that is told finds the stream idle if this was the last step.
                    signal.fire(state.outcome(), woken);
                }
                Some(Step::Wait(signal)) => match signal.make_wait(self) {
                    Some(outcome) => state.note(outcome),
                    None => return false,
                },
                None => {
                    state.busy = false;
                    return false;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one assignment, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// Who waited for events that happened: streams, each with how its event ended, which have the turn
/// now, and threads.
#[derive(Debug, Default)]
#[must_use = "they wait until they are told to go on"]
pub(crate) struct Woken {
    streams: VecDeque<(Arc<Queue>, Outcome)>,
    signals: Vec<Arc<Signal>>,
}

impl Woken {
    pub(crate) fn add_streams(&mut self, streams: Vec<Arc<Queue>>, outcome: &Outcome) {
        let with_outcome = |stream| (stream, outcome.clone());
        self.streams.extend(streams.into_iter().map(with_outcome));
    }

    /// Adds the threads that wait for a signal.
    pub(crate) fn add_threads(&mut self, of: &Arc<Signal>) {
        self.signals.push(Arc::clone(of));
    }

    /// Lets them go on, and those whose events they complete: a chain may have any length. The
    /// caller holds no lock that they need.
    pub(crate) fn go_on(mut self) {
        loop {
            for signal in self.signals.drain(..) {
                signal.wake();
            }
            let Some((stream, outcome)) = self.streams.pop_front() else {
                return;
            };
            stream.go_on(outcome, &mut self);
        }
    }
}

/// Does a piece of work.
fn run(task: impl FnOnce() -> Outcome) -> Outcome {
    fence_with_message(task).unwrap_or_else(|message| {
        let reason = format!("work on the stream panicked: {message}");
        Err(Failure::new(Status::PANIC, &reason))
    })
}
