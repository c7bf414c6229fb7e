//! Streams: work done in order by a thread of its own, started when first needed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::fence::fence_with_message;

use crate::event::{Event, Failure, Outcome, Signal};

/// A piece of work.
pub(crate) type Task = Box<dyn FnOnce() -> Outcome + Send>;

/// Work in order. Dropping it lets what was submitted finish.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    /// The process that the thread belongs to.
    process: u32,
}

impl Stream {
    /// A stream with nothing to do, and no thread yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            process: std::process::id(),
        }
    }

    /// Submits work that may take long, and returns at once.
    ///
    /// # Errors
    /// A [`Failure`] when the system has no thread for it; the work was dropped.
    pub fn submit(&self, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        self.shared.submit(Box::new(work))
    }

    /// Submits work so short that this thread does it when the stream is idle.
    ///
    /// # Errors
    /// As [`Stream::submit`]; a failure of the work itself is the stream's.
    pub fn submit_short(&self, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        if self.shared.claim_idle() {
            self.shared.run(Box::new(work));
            return Ok(());
        }
        self.shared.submit(Box::new(work))
    }

    /// Starts `event` anew: it is complete when all that was submitted before it is.
    ///
    /// # Errors
    /// As [`Stream::submit`]; the event then is what it was before.
    pub fn record(&self, event: &Event) -> Outcome {
        let signal = Arc::<Signal>::default();
        self.signal(Arc::clone(&signal))?;
        event.restart(signal);
        Ok(())
    }

    /// Makes work submitted from now on wait for `event` as it stands; this thread does not wait.
    ///
    /// A failure that the event carries becomes the stream's.
    ///
    /// # Errors
    /// As [`Stream::submit`].
    pub fn wait(&self, event: &Event) -> Outcome {
        match event.current() {
            None => Ok(()),
            Some(signal) if signal.outcome() == Some(Ok(())) => Ok(()),
            Some(signal) => self.submit(move || signal.synchronize(None).unwrap_or(Ok(()))),
        }
    }

    /// Blocks until all that was submitted is done, or for `limit`; `None` when that passed first.
    ///
    /// A failure of the work is reported once, and forgotten. Any other says nothing about the work:
    /// the system had no thread for a busy stream.
    #[must_use]
    pub fn synchronize(&self, limit: Option<Duration>) -> Option<Outcome> {
        let signal = Arc::<Signal>::default();
        if let Err(failure) = self.signal(Arc::clone(&signal)) {
            return Some(Err(failure));
        }
        let outcome = signal.synchronize(limit)?;
        if let Err(reported) = &outcome {
            let mut state = self.shared.state();
            // Another failure may have come since: that one was not reported yet.
            state.failure.take_if(|failure| failure == reported);
        }
        Some(outcome)
    }

    /// Whether all that was submitted is done; a failure stays until it is synchronized.
    #[must_use]
    pub fn query(&self) -> Option<Outcome> {
        let state = self.shared.state();
        let idle = state.tasks.is_empty() && state.now != Now::Work;
        idle.then(|| state.failure.clone().map_or(Ok(()), Err))
    }

    /// Fires `signal` after what was submitted, with the stream's failure if it has one.
    fn signal(&self, signal: Arc<Signal>) -> Outcome {
        let shared = Arc::downgrade(&self.shared);
        self.submit_short(move || {
            let failure = shared.upgrade().and_then(|shared| shared.state().report());
            signal.fire(failure.map_or(Ok(()), Err));
            Ok(())
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // In the child of a fork the lock may be held for ever, and there is no thread to tell.
        if self.process != std::process::id() {
            return;
        }
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

/// What a stream shares with its thread.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    now: Now,
    has_thread: bool,
    closed: bool,
    /// The first failure since the last report.
    failure: Option<Failure>,
}

/// What a thread does with the stream outside the lock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Now {
    #[default]
    Nothing,
    Work,
    /// Only telling others that everything before it is done.
    Report,
}

impl State {
    /// The failure to tell, by a task that itself is no work: whoever is told finds the stream idle.
    fn report(&mut self) -> Option<Failure> {
        self.now = Now::Report;
        self.failure.clone()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("tasks", &self.tasks.len())
            .field("now", &self.now)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one assignment, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(self: &Arc<Self>, task: Task) -> Outcome {
        let mut state = self.state();
        if !state.has_thread {
            self.start()?;
            state.has_thread = true;
        }
        state.tasks.push_back(task);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    fn start(self: &Arc<Self>) -> Outcome {
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("xd-cpu-stream".to_owned());
        match thread.spawn(move || shared.serve()) {
            Ok(_) => Ok(()),
            Err(error) => {
                let reason = format!("no thread for a stream: {error}");
                Err(Failure::new(Status::OOM_HOST, &reason))
            }
        }
    }

    /// Claims the right to run if nothing is running or waiting to.
    fn claim_idle(&self) -> bool {
        let mut state = self.state();
        let idle = state.tasks.is_empty() && state.now == Now::Nothing;
        if idle {
            state.now = Now::Work;
        }
        idle
    }

    /// Runs a task, and gives up the right to run, which was claimed.
    fn run(&self, task: Task) {
        let panicked = |message| {
            let reason = format!("work on the stream panicked: {message}");
            Err(Failure::new(Status::PANIC, &reason))
        };
        let outcome = fence_with_message(task).unwrap_or_else(panicked);
        let mut state = self.state();
        state.now = Now::Nothing;
        if let Err(failure) = outcome {
            state.failure.get_or_insert(failure.of_work());
        }
        let more = !state.tasks.is_empty() || state.closed;
        drop(state);
        if more {
            self.changed.notify_all();
        }
    }

    /// The life of the stream's thread.
    fn serve(&self) {
        while let Some(task) = self.next_task() {
            self.run(task);
        }
    }

    fn next_task(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if state.now == Now::Nothing {
                if let Some(task) = state.tasks.pop_front() {
                    state.now = Now::Work;
                    return Some(task);
                }
                if state.closed {
                    return None;
                }
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
