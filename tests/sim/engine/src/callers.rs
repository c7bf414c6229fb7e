//! The threads that call host functions.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Failure;
use crate::clock::Clock;
use crate::engine::Shared;
use crate::schedule::HostJob;
use crate::shadow::Mark;
use crate::threads;

thread_local! {
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
    static RUNNING: RefCell<Option<(Mark, Clock)>> = const { RefCell::new(None) };
}

/// Whether the calling thread runs a host function.
pub(crate) fn is_host_function() -> bool {
    IS_CALLER.get()
}

/// What the host function of the calling thread is known by.
pub(crate) fn running() -> Option<(Mark, Clock)> {
    // A thread that ends has none any more, and its destructors may still call the engine.
    let running = RUNNING.try_with(|running| running.borrow().clone());
    running.ok().flatten()
}

type Job = (Arc<Shared>, HostJob);

/// As many threads as host functions ever ran at once: one that blocks holds up no other stream's.
#[derive(Default)]
pub(crate) struct Callers {
    pool: Arc<Mutex<Pool>>,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Sender<Job>>,
    closed: bool,
}

impl Callers {
    /// Has a function called by a thread of its own; false if the system has no thread for it, and
    /// the function was dropped.
    pub(crate) fn call(&self, shared: &Arc<Shared>, job: HostJob) -> bool {
        let mut job = (Arc::clone(shared), job);
        let waiting = lock(&self.pool).idle.pop();
        if let Some(thread) = waiting {
            match thread.send(job) {
                Ok(()) => return true,
                // It ended in between; a new one takes its place.
                Err(SendError(returned)) => job = returned,
            }
        }
        let pool = Arc::clone(&self.pool);
        threads::spawn("sim-host", move || serve(&pool, job)).is_ok()
    }

    /// Ends the threads that wait for functions.
    pub(crate) fn close(&self) {
        let mut pool = lock(&self.pool);
        pool.closed = true;
        pool.idle.clear();
    }
}

fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(pool: &Mutex<Pool>, mut job: Job) {
    IS_CALLER.set(true);
    loop {
        call(job);
        let (sender, receiver) = channel();
        {
            let mut pool = lock(pool);
            if pool.closed {
                return;
            }
            pool.idle.push(sender);
        }
        let Ok(next) = receiver.recv() else { return };
        job = next;
    }
}

fn call((shared, job): Job) {
    RUNNING.set(Some((job.mark, job.clock)));
    let done = Done {
        shared,
        queue: job.queue,
        op: job.op,
        mark: job.mark,
    };
    (job.function)();
    drop(done);
}

/// Tells the engine that a function is over, also when it panicked.
struct Done {
    shared: Arc<Shared>,
    queue: usize,
    op: u64,
    mark: Mark,
}

/// The status of work whose host function panicked.
const PANICKED: i32 = -2;

impl Drop for Done {
    fn drop(&mut self) {
        RUNNING.set(None);
        let failure = Failure {
            status: PANICKED,
            site: self.mark.site,
        };
        let panicked = std::thread::panicking().then_some(failure);
        self.shared.lock().host_done(self.queue, self.op, panicked);
        self.shared.tell_all();
    }
}
