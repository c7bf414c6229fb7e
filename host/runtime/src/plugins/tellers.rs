//! Whether a stream may have told of a failure of its work.
//!
//! A plugin forgets a failure once a wait for the stream has told of it, and an event that is recorded later does not
//! have it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// Counts the waits that told of a failure of a stream's work, or may be about to.
#[derive(Debug, Default)]
pub(crate) struct Tellers(AtomicU64);

impl Tellers {
    /// Waits by a hook that tells of a failure. The wait is counted before, and stays counted where it told of one.
    pub(crate) fn tell(&self, wait: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.0.fetch_add(1, Ordering::AcqRel);
        let told = wait();
        if !told.as_ref().is_err_and(Error::is_failure_of_work) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
        told
    }

    /// Whether a failure may have been told by now.
    pub(crate) fn may_have_told(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}
