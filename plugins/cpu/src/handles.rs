//! Objects behind the words that the host holds; a word is never given twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Live objects by their words.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    live: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    /// No objects.
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            live: RwLock::default(),
        }
    }

    /// Keeps an object, and gives its word.
    pub(crate) fn insert(&self, object: T) -> u64 {
        let word = self.next.fetch_add(1, Ordering::Relaxed);
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.insert(word, Arc::new(object));
        word
    }

    /// The object of a word, while it lives.
    pub(crate) fn find(&self, word: u64) -> Option<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&word).map(Arc::clone)
    }

    /// Ends a word.
    pub(crate) fn remove(&self, word: u64) -> Option<Arc<T>> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.remove(&word)
    }

    /// Every live object.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().map(Arc::clone).collect()
    }

    /// Ends every word.
    pub(crate) fn clear(&self) {
        let live = {
            let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *live)
        };
        drop(live);
    }
}
