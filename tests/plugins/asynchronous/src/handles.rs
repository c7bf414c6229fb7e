//! What the host's words stand for; a word is never given twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Live objects by their words.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    live: Mutex<BTreeMap<u64, T>>,
}

impl<T: Copy> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            live: Mutex::new(BTreeMap::new()),
        }
    }

    /// Keeps an object, and gives its word.
    pub(crate) fn insert(&self, object: T) -> u64 {
        let word = self.next.fetch_add(1, Ordering::Relaxed);
        self.live().insert(word, object);
        word
    }

    /// The object of a word, while it lives.
    pub(crate) fn find(&self, word: u64) -> Option<T> {
        self.live().get(&word).copied()
    }

    /// Replaces the object of a word that lives.
    pub(crate) fn replace(&self, word: u64, object: T) {
        if let Some(kept) = self.live().get_mut(&word) {
            *kept = object;
        }
    }

    /// Ends a word.
    pub(crate) fn remove(&self, word: u64) -> Option<T> {
        self.live().remove(&word)
    }

    /// Lets a word live again that was ended.
    pub(crate) fn restore(&self, word: u64, object: T) {
        self.live().insert(word, object);
    }

    /// Every live object, in the order of their words.
    pub(crate) fn all(&self) -> Vec<T> {
        self.live().values().copied().collect()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, T>> {
        // Each change is one call of the map's, so a panic elsewhere does not spoil it.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
