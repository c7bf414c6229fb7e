//! Threads of a plugin that run jobs one after the other. Each starts with its first job, and ends when
//! the worker and all its queues are gone.
//!
//! Where a device asks for it (`Capabilities::POLLED_HOST_CALLS`), a worker also polls the streams that its jobs will
//! come from: the driver of a lost device calls nobody, and a plugin without threads of its own notices the loss only
//! in a call. So a wait of more than [`POLL_INTERVAL`] makes calls that no program made; traces show them, and fault
//! plans count them.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::fence::fence;
use crossdock_sdk::threads::Thread;

use crate::hooks::weak_list::WeakList;
use crate::plugins::poller::Poller;
use crate::process::process_state;

/// What a worker does once.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Something that a job will come from.
pub(crate) trait Polled: fmt::Debug + Send + Sync {
    /// Asks the plugin how far it is, and says whether it is to be asked again. The plugin acts on what it finds.
    fn poll(&self) -> bool;
}

/// Only what a lost device would have done waits so long.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The threads that act when a plugin's work is over.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// They complete host events.
    pub(crate) host_events: Worker,
    /// A thread of its own: a release may run code of others, which must not delay a stream.
    pub(crate) releases: Worker,
    /// It polls for what the plugin calls no host function for.
    pub(crate) polls: Poller,
}

/// A thread that is started when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Worker(Mutex<Option<JobQueue>>);

impl Worker {
    /// The queue that takes its jobs; `None` where the system has no thread to run them.
    pub(crate) fn start(&self, name: &str) -> Option<JobQueue> {
        let mut queue = locked(&self.0);
        if queue.is_none() {
            let (to, jobs) = channel();
            let polled = Arc::<PollList>::default();
            let list = Arc::clone(&polled);
            let thread = Thread::named(name).spawn(move || serve(&jobs, &list));
            thread.ok()?;
            *queue = Some(JobQueue { jobs: to, polled });
        }
        queue.clone()
    }
}

/// Where the jobs of a worker go.
#[derive(Debug, Clone)]
pub(crate) struct JobQueue {
    jobs: Sender<Job>,
    polled: Arc<PollList>,
}

impl JobQueue {
    /// Runs the job on the worker's thread. Where the thread has ended, the job is a counted leak: dropping it here
    /// could call hooks.
    pub(crate) fn put_or_leak(&self, job: Job) {
        if let Err(lost) = self.put(job) {
            process_state::leak(lost);
        }
    }

    /// Runs the job on the worker's thread.
    ///
    /// # Errors
    /// The job, where the thread is gone.
    fn put(&self, job: Job) -> Result<(), Job> {
        self.jobs.send(job).map_err(|lost| lost.0)
    }

    /// Lets the worker poll this until it needs no poll or was dropped.
    pub(crate) fn poll_while_alive(&self, one: &Arc<impl Polled + 'static>) {
        let one = Arc::downgrade(one);
        let was_empty = {
            let mut list = locked(&self.polled.0);
            let was_empty = list.is_empty();
            list.push(one);
            was_empty
        };
        if was_empty {
            // The thread waits for a job alone, and this one wakes it.
            let _gone = self.put(Box::new(|| ()));
        }
    }
}

/// What is polled.
#[derive(Debug, Default)]
struct PollList(Mutex<WeakList<dyn Polled>>);

impl PollList {
    fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }

    fn poll(&self) {
        let alive = {
            let mut list = locked(&self.0);
            list.forget_gone();
            list.alive()
        };
        for one in alive {
            // An exit waits for the call of the plugin.
            let Some(_waits) = process_state::begin_release() else {
                return;
            };
            // This may be the last holder; its drop calls hooks and foreign code, which may panic.
            let polled = Arc::downgrade(&one);
            if fence(move || one.poll()) == Some(false) {
                locked(&self.0).forget(&polled);
            }
        }
    }
}

fn serve(jobs: &Receiver<Job>, polled: &PollList) {
    let mut last_poll = Instant::now();
    loop {
        let job = if polled.is_empty() {
            let job = jobs.recv();
            last_poll = Instant::now();
            job.map_err(|_gone| RecvTimeoutError::Disconnected)
        } else {
            jobs.recv_timeout(POLL_INTERVAL)
        };
        match job {
            // A deleter of others may panic.
            Ok(job) => drop(fence(job)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if last_poll.elapsed() >= POLL_INTERVAL {
            polled.poll();
            last_poll = Instant::now();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
