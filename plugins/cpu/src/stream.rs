//! Streams: work done in order, by threads that all streams share.

use std::sync::Arc;
use std::time::Duration;

use crate::event::{Event, Outcome, Signal};
use crate::queue::Queue;
use crate::threads::Threads;

/// Work in order. Dropping it lets what was submitted finish.
#[derive(Debug)]
pub struct Stream(Arc<Queue>);

impl Stream {
    /// A stream with nothing to do, whose work these threads will run.
    #[must_use]
    pub fn new(threads: &Arc<Threads>) -> Self {
        Self(Queue::new(threads))
    }

    /// Submits work that may take long, and returns at once.
    ///
    /// # Errors
    /// A [`Failure`](crate::event::Failure) when the system has no thread for it; the work was
    /// dropped.
    pub fn submit(&self, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        self.0.submit(Box::new(work))
    }

    /// Submits work so short that this thread does it when the stream is idle.
    ///
    /// # Errors
    /// As [`Stream::submit`]; a failure of the work itself is the stream's.
    pub fn submit_short(&self, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        let busy = self.0.run_here(work);
        busy.or_else(|work| self.submit(work))
    }

    /// Starts `event` anew: it is complete when all that was submitted before it is.
    pub fn record(&self, event: &Event) {
        let signal = Arc::<Signal>::default();
        self.0.report(Arc::clone(&signal));
        event.restart(signal);
    }

    /// Makes work submitted from now on wait for `event` as it stands; this thread does not wait.
    ///
    /// A failure that the event carries becomes the stream's.
    pub fn wait(&self, event: &Event) {
        let pending = |signal: &Arc<Signal>| signal.outcome() != Some(Ok(()));
        if let Some(signal) = event.current().filter(pending) {
            self.0.wait(signal);
        }
    }

    /// Blocks until all that was submitted is done, or for `limit`; `None` when that passed first.
    ///
    /// A failure of the work is reported once, and forgotten.
    #[must_use]
    pub fn synchronize(&self, limit: Option<Duration>) -> Option<Outcome> {
        let ended = self.end(limit)?;
        if let Err(told) = &ended {
            self.0.forget(told);
        }
        Some(ended)
    }

    /// Blocks in the same way, and leaves a failure to be reported; whether all is done.
    #[must_use]
    pub fn drain(&self, limit: Option<Duration>) -> bool {
        self.end(limit).is_some()
    }

    fn end(&self, limit: Option<Duration>) -> Option<Outcome> {
        match self.0.end() {
            Ok(outcome) => Some(outcome),
            Err(signal) => signal.synchronize(limit),
        }
    }

    /// Whether all that was submitted is done; a failure stays until it is synchronized.
    #[must_use]
    pub fn query(&self) -> Option<Outcome> {
        self.0.outcome()
    }
}
