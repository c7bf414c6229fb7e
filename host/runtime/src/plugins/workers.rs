//! Threads of a plugin that run jobs one after the other. Each starts with its first job, and ends when
//! the worker and all its senders are gone.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use crossdock_sdk::fence::fence;

/// What a worker does once.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads that act when a plugin's work is over.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// They complete host events.
    pub(crate) host_events: Worker,
    /// A thread of its own: a release may run code of others, which must not delay a stream.
    pub(crate) releases: Worker,
}

/// Where jobs go.
#[derive(Debug, Default)]
pub(crate) struct Worker(Mutex<Option<Sender<Job>>>);

impl Worker {
    /// The queue that takes its jobs; `None` where the system has no thread to run them.
    pub(crate) fn start(&self, name: &str) -> Option<Sender<Job>> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            let (to, jobs) = channel();
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || serve(&jobs)).ok()?;
            *sender = Some(to);
        }
        sender.clone()
    }
}

fn serve(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        // A deleter of others may panic.
        let _caught = fence(job);
    }
}
