//! The native objects (a `cl_mem`) that are alive on the devices of a plugin, with the memory that each is.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::process::process_state;

/// The memory that an object is. What memory is, a later room knows.
pub(crate) type ObjectMemory = dyn Any + Send + Sync;

/// Memory by the word of its object. An entry is found while somebody holds the memory, and never
/// longer: vendors use their handles again.
#[derive(Debug)]
pub(crate) struct LiveObjects {
    entries: Mutex<HashMap<u64, Weak<ObjectMemory>>>,
    /// In the child of a fork the lock may be held by a thread that the child does not have.
    generation: u32,
}

impl LiveObjects {
    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::default(),
            generation: process_state::generation(),
        }
    }

    /// The memory whose object has this word, where somebody holds it.
    pub(crate) fn find(&self, word: u64) -> Option<Arc<ObjectMemory>> {
        self.with(|entries| entries.get(&word)?.upgrade()).flatten()
    }

    /// All that somebody holds.
    pub(crate) fn all(&self) -> Vec<Arc<ObjectMemory>> {
        let all = |entries: &mut HashMap<_, Weak<_>>| {
            entries.values().filter_map(Weak::upgrade).collect()
        };
        self.with(all).unwrap_or_default()
    }

    /// Enters memory that was made of an object just now, under the words by which that is named. Where
    /// another thread was first, nothing is entered, and its memory is the answer.
    pub(crate) fn enter<M: Any + Send + Sync>(
        &self,
        words: [u64; 2],
        memory: &Arc<M>,
    ) -> Option<Arc<ObjectMemory>> {
        let enter = |entries: &mut HashMap<u64, Weak<ObjectMemory>>| {
            let mut known = words.iter().filter_map(|word| entries.get(word));
            if let Some(first) = known.find_map(Weak::upgrade) {
                return Some(first);
            }
            if entries.len() == entries.capacity() {
                entries.retain(|_, memory| memory.strong_count() > 0);
            }
            for word in words {
                let memory = Arc::downgrade(memory);
                entries.insert(word, memory);
            }
            None
        };
        self.with(enter).flatten()
    }

    /// Does this under the lock, where no memory may end: its end calls hooks.
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Weak<ObjectMemory>>) -> T) -> Option<T> {
        let is_ours = self.generation == process_state::generation();
        // Each change is one insertion, or a removal of what is gone.
        is_ours.then(|| work(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
