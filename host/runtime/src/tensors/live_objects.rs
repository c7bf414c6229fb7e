//! The memory behind native objects (a `cl_mem`) that is alive on the devices of a plugin: who names such
//! an object gets the memory that it is, with its owner and the work on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::process::process_state;
use crate::tensors::memory::Memory;

/// Memory by the word of its object. An entry is found while somebody holds the memory, and never
/// longer: vendors use their handles again.
#[derive(Debug)]
pub(crate) struct LiveObjects {
    entries: Mutex<HashMap<u64, Weak<Memory>>>,
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
    pub(crate) fn find(&self, word: u64) -> Option<Arc<Memory>> {
        self.with(|entries| entries.get(&word)?.upgrade()).flatten()
    }

    /// The memory that the plugin gives this number: under another handle, an object that is a part
    /// of it or that it is a part of.
    pub(crate) fn numbered(&self, number: u64) -> Option<Arc<Memory>> {
        let all = |entries: &mut HashMap<_, Weak<Memory>>| -> Vec<_> {
            entries.values().filter_map(Weak::upgrade).collect()
        };
        let mut live = self.with(all)?.into_iter().filter(|_| number != 0);
        live.find(|memory| {
            let said = memory.device.hooks().pointer_query(memory.address);
            said.is_ok_and(|said| said.allocation_id == number)
        })
    }

    /// Enters memory that was made of an object just now, under the words by which that is named. Where
    /// another thread was first, nothing is entered, and its memory is the answer.
    pub(crate) fn enter(&self, words: [u64; 2], memory: &Arc<Memory>) -> Option<Arc<Memory>> {
        let enter = |entries: &mut HashMap<u64, Weak<Memory>>| {
            let mut known = words.iter().filter_map(|word| entries.get(word));
            if let Some(first) = known.find_map(Weak::upgrade) {
                return Some(first);
            }
            if entries.len() == entries.capacity() {
                entries.retain(|_, memory| memory.strong_count() > 0);
            }
            entries.extend(words.map(|word| (word, Arc::downgrade(memory))));
            None
        };
        self.with(enter).flatten()
    }

    /// Does this under the lock, where no memory may end: its end calls hooks.
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Weak<Memory>>) -> T) -> Option<T> {
        let is_ours = self.generation == process_state::generation();
        // Each change is one insertion, or a removal of what is gone.
        is_ours.then(|| work(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
