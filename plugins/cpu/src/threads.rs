//! The threads that run streams: one for each stream that has work now, and idle ones for the next.
//!
//! Work may block, so no number of busy threads is enough: a stream that finds no idle thread gets a
//! new one. Where one event lets many streams go on, threads are started one after the other, each
//! by the one before it, for as long as streams are left; mostly a few have done the work by then.
//! The last thread stays until the pool is closed: work that was taken always finds one.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::log;
use crossdock_sdk::threads::Thread;

use crate::event::{Failure, Outcome};
use crate::queue::Queue;

/// A pool that grows with the streams that have work at once.
pub struct Threads {
    state: Mutex<State>,
    called: Condvar,
    /// That a thread was counted out.
    ended: Condvar,
    most_idle: usize,
    keep: Duration,
}

#[derive(Default)]
struct State {
    /// Streams with work, which nobody runs yet.
    runnable: VecDeque<Arc<Queue>>,
    /// All threads.
    threads: usize,
    /// Those that are about to look for a stream: they start, or end another one.
    coming: usize,
    /// Those that wait for a stream, also where they were called and do not run yet.
    idle: usize,
    closed: bool,
}

/// Who will run a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// A thread that is about to look for one.
    Coming,
    /// An idle one, once it is woken.
    Idle,
    Missing,
}

impl State {
    /// Puts a stream into the line.
    fn enter(&mut self, stream: Arc<Queue>) -> Answer {
        self.runnable.push_back(stream);
        match self.runnable.len() {
            streams if streams <= self.coming => Answer::Coming,
            streams if streams <= self.coming + self.idle => Answer::Idle,
            _ => Answer::Missing,
        }
    }
}

impl Threads {
    /// A pool without threads yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::keeping(MOST_IDLE, KEEP)
    }

    /// A pool that keeps so many idle threads, for so long; one is kept in any case.
    #[must_use]
    pub fn keeping(most_idle: usize, keep: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            called: Condvar::new(),
            ended: Condvar::new(),
            most_idle,
            keep,
        })
    }

    /// How many threads there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state().threads
    }

    /// Lets each thread end that finds no work. Work that comes all the same is still done.
    pub fn close(&self) {
        self.state().closed = true;
        self.called.notify_all();
    }

    /// Waits until all threads of a closed pool have ended, and with them all work. Its threads must not call this.
    pub fn join(&self) {
        let is_running = |state: &mut State| state.threads > 0;
        let ended = self.ended.wait_while(self.state(), is_running);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sees to it that there is a thread, now and until the pool is closed.
    ///
    /// # Errors
    /// `OOM_HOST`: the system has none.
    pub(crate) fn start_first(self: &Arc<Self>) -> Outcome {
        let mut state = self.state();
        if state.threads > 0 {
            return Ok(());
        }
        self.start(&mut state).map_err(no_thread)
    }

    /// Has a stream run that has work; whether the caller has to [`wake`](Self::wake) a thread for it.
    ///
    /// # Errors
    /// `OOM_HOST`: all threads are busy, and the system has no other one. Nobody runs it then.
    pub(crate) fn run(self: &Arc<Self>, stream: Arc<Queue>) -> Result<bool, Failure> {
        let mut state = self.state();
        let answer = state.enter(stream);
        if answer != Answer::Missing {
            return Ok(answer == Answer::Idle);
        }
        let started = self.start(&mut state).map_err(no_thread);
        if started.is_err() {
            let _refused = state.runnable.pop_back();
        }
        started.map(|()| false)
    }

    /// Has a stream run whose work was taken before: where the system has no thread for it, as soon
    /// as one is free.
    pub(crate) fn run_taken(self: &Arc<Self>, stream: Arc<Queue>) {
        let mut state = self.state();
        let answer = state.enter(stream);
        let mut started = Ok(());
        if answer == Answer::Missing {
            started = self.start_next(&mut state);
        }
        drop(state);
        if answer == Answer::Idle {
            self.wake();
        }
        report(started);
    }

    /// Wakes an idle thread, which then looks for a stream. The caller holds no lock that it needs.
    pub(crate) fn wake(&self) {
        self.called.notify_one();
    }

    /// Says that the calling thread will look for a stream at once, so that none is called for one
    /// that comes before.
    pub(crate) fn announce(&self) {
        self.state().coming += 1;
    }

    /// Starts a thread where one is missing and none is coming, which would start the next.
    fn start_next(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if state.coming > 0 || state.runnable.len() <= state.idle {
            return Ok(());
        }
        self.start(state)
    }

    fn start(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let threads = Arc::clone(self);
        Thread::named("xd-cpu-stream").spawn(move || threads.serve())?;
        state.threads += 1;
        state.coming += 1;
        Ok(())
    }

    /// The life of a thread.
    fn serve(self: &Arc<Self>) {
        let mut state = self.state();
        state.coming -= 1;
        while let Some(stream) = self.next(state) {
            let is_announced = stream.run();
            state = self.state();
            state.coming -= usize::from(is_announced);
        }
    }

    /// A stream to run; `None` where the thread was counted out.
    fn next(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> Option<Arc<Queue>> {
        loop {
            if let Some(stream) = state.runnable.pop_front() {
                let started = self.start_next(&mut state);
                drop(state);
                report(started);
                return Some(stream);
            }
            let is_last = state.threads == 1;
            if state.closed || (state.idle >= self.most_idle && !is_last) {
                break;
            }
            state.idle += 1;
            let is_late;
            (state, is_late) = self.wait(state, is_last);
            state.idle -= 1;
            if is_late && state.runnable.is_empty() && state.threads > 1 {
                break;
            }
        }
        state.threads -= 1;
        self.ended.notify_all();
        None
    }

    /// Waits to be called; whether that took too long. The last thread has all the time.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        is_last: bool,
    ) -> (MutexGuard<'a, State>, bool) {
        if is_last {
            let called = self.called.wait(state);
            return (called.unwrap_or_else(PoisonError::into_inner), false);
        }
        let called = self.called.wait_timeout(state, self.keep);
        let (state, waited) = called.unwrap_or_else(PoisonError::into_inner);
        (state, waited.timed_out())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing between its changes can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_thread(error: io::Error) -> Failure {
    let reason = format!("no thread for a stream: {error}");
    Failure::new(Status::OOM_HOST, &reason)
}

/// Tells of a thread that is missing where nobody can be answered.
fn report(started: io::Result<()>) {
    if let Err(error) = started {
        log::warn!("a stream waits for a thread that is busy: no other one: {error}");
    }
}

/// So many idle threads are kept for the next streams.
const MOST_IDLE: usize = 16;

/// An idle thread that nobody needed for so long ends.
const KEEP: Duration = Duration::from_secs(5);
