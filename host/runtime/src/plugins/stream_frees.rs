//! What a stream was told to free, for those who wait for releases: its plugin frees it when the
//! stream comes to that, and tells nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::plugins::stream_core::StreamCore;

/// Lets those who wait for releases go on once the stream is past all that it was told to free so far. It
/// holds a place among its plugin's outstanding releases until then.
pub(crate) type Finish = Box<dyn FnOnce(&StreamCore) + Send>;

/// What a stream was told to free: one place among its plugin's outstanding releases, until somebody asks
/// when the stream is past its frees.
#[derive(Default)]
pub(crate) struct Frees {
    /// Whether there is a place: one more free takes no lock then.
    is_noted: AtomicBool,
    finish: Mutex<Option<Finish>>,
}

impl Frees {
    /// Notes that the stream was told to free memory.
    pub(crate) fn note(&self, finish: impl FnOnce() -> Finish) {
        if self.is_noted.load(Ordering::Acquire) {
            return;
        }
        let mut noted = self.finish.lock().unwrap_or_else(PoisonError::into_inner);
        // Made under the lock: a wait for its place finds it here.
        noted.get_or_insert_with(finish);
        self.is_noted.store(true, Ordering::Release);
    }

    /// Whether there is a place that nobody took out.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    /// Takes the place out: a free after this has another one.
    pub(crate) fn take(&self) -> Option<Finish> {
        let mut noted = self.finish.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_noted.store(false, Ordering::Release);
        noted.take()
    }

    /// The same without taking the lock, which in the child of a fork may be held for ever.
    pub(crate) fn last(&mut self) -> Option<Finish> {
        let noted = self.finish.get_mut();
        noted.unwrap_or_else(PoisonError::into_inner).take()
    }
}
