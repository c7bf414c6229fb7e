//! Threads of a plugin that run jobs one after the other. Each starts with its first job, and ends when
//! the worker and all its queues are gone.
//!
//! A worker also asks from time to time after what its jobs come from. A driver that lost a device does
//! not call the host any more, and a plugin without a thread of its own finds that out when it is asked.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crossdock_sdk::fence::fence;

/// What a worker does once.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Something that a job will come from.
pub(crate) trait Outstanding: fmt::Debug + Send + Sync {
    /// Asks the plugin how far it is. The answer is the plugin's to act on.
    fn ask(&self);
}

/// How often is asked. Only what a lost device would have done waits so long.
const PAUSE: Duration = Duration::from_millis(100);

/// The threads that act when a plugin's work is over.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// They complete host events.
    pub(crate) host_events: Worker,
    /// A thread of its own: a release may run code of others, which must not delay a stream.
    pub(crate) releases: Worker,
}

/// A thread that is started when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Worker(Mutex<Option<Queue>>);

impl Worker {
    /// The queue that takes its jobs; `None` where the system has no thread to run them.
    pub(crate) fn start(&self, name: &str) -> Option<Queue> {
        let mut queue = locked(&self.0);
        if queue.is_none() {
            let (to, jobs) = channel();
            let outstanding = Arc::<Asked>::default();
            let asked = Arc::clone(&outstanding);
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || serve(&jobs, &asked)).ok()?;
            *queue = Some(Queue {
                jobs: to,
                outstanding,
            });
        }
        queue.clone()
    }
}

/// Where the jobs of a worker go.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    jobs: Sender<Job>,
    outstanding: Arc<Asked>,
}

impl Queue {
    /// Runs the job on the worker's thread.
    ///
    /// # Errors
    /// The job, where the thread is gone.
    pub(crate) fn put(&self, job: Job) -> Result<(), Job> {
        self.jobs.send(job).map_err(|lost| lost.0)
    }

    /// Lets the worker ask after this until nobody holds it any more.
    pub(crate) fn ask_after(&self, one: &Arc<impl Outstanding + 'static>) {
        let one = Arc::downgrade(one);
        if self.outstanding.add(one) {
            // The thread may be waiting for a job alone.
            let _gone = self.put(Box::new(|| ()));
        }
    }
}

/// What is asked after.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<Weak<dyn Outstanding>>>);

impl Asked {
    /// Whether it is the first one.
    fn add(&self, one: Weak<dyn Outstanding>) -> bool {
        let mut all = locked(&self.0);
        if all.len() == all.capacity() {
            all.retain(|one| one.strong_count() > 0);
        }
        all.push(one);
        all.len() == 1
    }

    fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }

    fn ask(&self) {
        let all = {
            let mut all = locked(&self.0);
            all.retain(|one| one.strong_count() > 0);
            all.clone()
        };
        for one in all.iter().filter_map(Weak::upgrade) {
            // The last holder of what calls hooks, maybe, and of code of others.
            let _caught = fence(move || one.ask());
        }
    }
}

fn serve(jobs: &Receiver<Job>, outstanding: &Asked) {
    let mut asked = Instant::now();
    loop {
        let job = match outstanding.is_empty() {
            true => jobs.recv().map_err(|_gone| RecvTimeoutError::Disconnected),
            false => jobs.recv_timeout(PAUSE),
        };
        match job {
            // A deleter of others may panic.
            Ok(job) => drop(fence(job)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if asked.elapsed() >= PAUSE {
            outstanding.ask();
            asked = Instant::now();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
