//! A few threads that help with large copies; the thread that asks takes part.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use crossdock_sdk::fence::{PanicMessage, fence_with_message};
use crossdock_sdk::log;
use crossdock_sdk::threads::Thread;

/// Threads that share the parts of a large copy.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    started: Once,
    /// The process that the workers belong to: a forked child has none.
    process: OnceLock<u32>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl Pool {
    /// A pool in which `threads` threads work, the one that asks included; they start when needed.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            started: Once::new(),
            process: OnceLock::new(),
            workers: Mutex::new(Vec::new()),
            shared: Arc::new(Shared::default()),
        }
    }

    /// A pool of as many threads as the machine grants, or as `CROSSDOCK_CPU_THREADS` says.
    #[must_use]
    pub fn for_machine() -> Self {
        let granted = thread::available_parallelism().map_or(1, usize::from);
        let asked = std::env::var(THREADS_VARIABLE)
            .ok()
            .and_then(|text| text.parse().ok());
        Self::new(asked.unwrap_or(granted).min(MAX_THREADS))
    }

    /// How many threads work on a copy, the one that asks included.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `part` for every number below `parts`, and returns after the last. A panic of a part
    /// goes on here once the others ran: a copy that lacks a part did not succeed.
    pub fn run(&self, parts: usize, part: impl Fn(usize) + Send + Sync + 'static) {
        if self.threads < 2 || parts < 2 || !self.start() {
            (0..parts).for_each(part);
            return;
        }
        let job = Arc::new(Job {
            next: AtomicUsize::new(0),
            parts,
            part: Box::new(part),
            finished: Mutex::default(),
            all_finished: Condvar::new(),
        });
        let helpers = self.threads.min(parts) - 1;
        lock(&self.shared.jobs).extend((0..helpers).map(|_| Arc::clone(&job)));
        if helpers == 1 {
            self.shared.wanted.notify_one();
        } else {
            self.shared.wanted.notify_all();
        }
        // Whatever a part does, the workers are done with the caller's memory before this returns.
        job.work();
        if let Some(panicked) = job.wait() {
            std::panic::resume_unwind(Box::new(panicked.to_string()));
        }
    }

    /// Starts the workers once; whether this process has them.
    fn start(&self) -> bool {
        self.started.call_once(|| {
            let mut workers = Vec::new();
            for number in 1..self.threads {
                let shared = Arc::clone(&self.shared);
                let worker = Thread::named(format!("xd-cpu-copy-{number}"));
                match worker.spawn(move || shared.serve()) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => log::warn!("no thread for copies: {error}"),
                }
            }
            if !workers.is_empty() {
                self.process.get_or_init(std::process::id);
            }
            *lock(&self.workers) = workers;
        });
        self.process.get() == Some(&std::process::id())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.process.get() != Some(&std::process::id()) {
            return;
        }
        *lock(&self.shared.closed) = true;
        // A worker looks at `closed` while it holds `jobs`: taking it in between loses no wake-up.
        drop(lock(&self.shared.jobs));
        self.shared.wanted.notify_all();
        for worker in lock(&self.workers).drain(..) {
            // A stream's work may hold the last reference, but never a worker of this pool.
            if worker.join().is_err() {
                log::error!("a thread for copies panicked");
            }
        }
    }
}

/// What the workers wait for.
#[derive(Debug, Default)]
struct Shared {
    jobs: Mutex<VecDeque<Arc<Job>>>,
    wanted: Condvar,
    closed: Mutex<bool>,
}

impl Shared {
    /// The life of a worker.
    fn serve(&self) {
        while let Some(job) = self.next_job() {
            job.work();
        }
    }

    fn next_job(&self) -> Option<Arc<Job>> {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(job) = jobs.pop_front() {
                return Some(job);
            }
            if *lock(&self.closed) {
                return None;
            }
            jobs = self
                .wanted
                .wait(jobs)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One call of [`Pool::run`].
struct Job {
    next: AtomicUsize,
    parts: usize,
    part: Box<dyn Fn(usize) + Send + Sync>,
    finished: Mutex<Finished>,
    all_finished: Condvar,
}

/// The parts that are over.
#[derive(Default)]
struct Finished {
    count: usize,
    /// What the first one said that panicked.
    panicked: Option<PanicMessage>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Job {
    /// Takes parts until none is left, also behind one that panics: nobody else may be there to.
    fn work(&self) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            let ended = fence_with_message(|| (self.part)(part));
            let mut finished = lock(&self.finished);
            finished.count += 1;
            if let Err(panicked) = ended {
                finished.panicked.get_or_insert(panicked);
            }
            if finished.count == self.parts {
                self.all_finished.notify_all();
            }
        }
    }

    /// Waits for the last part, and gives out what panicked.
    fn wait(&self) -> Option<PanicMessage> {
        let finished = lock(&self.finished);
        let mut finished = self
            .all_finished
            .wait_while(finished, |finished| finished.count < self.parts)
            .unwrap_or_else(PoisonError::into_inner);
        finished.panicked.take()
    }
}

/// No state behind these locks can be left half changed, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits the threads that take part in a copy.
const THREADS_VARIABLE: &str = "CROSSDOCK_CPU_THREADS";

/// Memory is the limit long before this many threads.
const MAX_THREADS: usize = 64;
