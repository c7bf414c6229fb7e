//! A stream's submit lock, and a note of its pending frees. The plugin frees memory in the stream's order and does not
//! notify the host, so a wait for releases uses the note to find those frees.

use std::sync::{PoisonError, TryLockError};

#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use crossdock_sdk::abi::StreamHandle;

/// Records an event behind the stream's pending frees, under the submit lock. Returns a function, called without the
/// lock, that ends the stream's entry among the plugin's outstanding releases once the event has happened. Until then,
/// a wait for releases waits for the entry.
pub(crate) type Finish = Box<dyn FnOnce(StreamHandle) -> Box<dyn FnOnce()> + Send>;

/// The submit lock of a stream. Under it is the note of frees: one place among the plugin's outstanding releases, until
/// somebody asks when the stream is past its frees. A free is noted and submitted under one lock, and a note is taken out
/// and the stream's end recorded under one lock. So each wait for releases finds all earlier frees.
pub(crate) struct SubmitLock<F = Finish> {
    /// Whether there is a note: a wait for releases takes the lock only then.
    is_noted: AtomicBool,
    note: Mutex<Option<F>>,
}

/// The lock, held.
pub(crate) struct Submitting<'a, F = Finish> {
    is_noted: &'a AtomicBool,
    note: MutexGuard<'a, Option<F>>,
}

impl<F> Default for SubmitLock<F> {
    fn default() -> Self {
        Self {
            is_noted: AtomicBool::new(false),
            note: Mutex::new(None),
        }
    }
}

impl<F> SubmitLock<F> {
    pub(crate) fn lock(&self) -> Submitting<'_, F> {
        Submitting {
            is_noted: &self.is_noted,
            note: self.note.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The lock, unless another caller has it.
    pub(crate) fn try_lock(&self) -> Option<Submitting<'_, F>> {
        let note = match self.note.try_lock() {
            Ok(note) => note,
            Err(TryLockError::Poisoned(note)) => note.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Submitting {
            is_noted: &self.is_noted,
            note,
        })
    }

    /// Whether there is a note of frees.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    /// Takes the note out without the lock, which in the child of a fork may be held for ever.
    pub(crate) fn last_note(&mut self) -> Option<F> {
        let note = self.note.get_mut();
        note.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F> Submitting<'_, F> {
    /// Notes a free, which is submitted under this lock.
    pub(crate) fn note_free(&mut self, finish: impl FnOnce() -> F) {
        // Before `finish` takes a place among the releases: a wait that covers the place looks for the note.
        self.is_noted.store(true, Ordering::Release);
        self.note.get_or_insert_with(finish);
    }

    /// Takes the note out: a free after this has another one.
    pub(crate) fn take_note(&mut self) -> Option<F> {
        self.is_noted.store(false, Ordering::Release);
        self.note.take()
    }
}
