//! Turns: one thread at a time maps and unmaps a memory object.
//!
//! A driver finds the mapping that is to end by its address. PoCL takes the first one there, which may be
//! one that another thread is still making, and frees it while that thread uses it.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// The objects that some thread maps or unmaps now.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<BTreeSet<u64>>,
    given_back: Condvar,
}

impl Turns {
    /// Waits until no other thread has the turn of this object.
    pub(crate) fn take(&self, object: u64) -> Turn<'_> {
        let is_taken = |taken: &mut BTreeSet<u64>| taken.contains(&object);
        let mut taken = self
            .given_back
            .wait_while(self.taken(), is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        taken.insert(object);
        Turn { of: self, object }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One object's turn, until it is dropped.
#[derive(Debug)]
#[must_use = "the turn ends when it is dropped"]
pub(crate) struct Turn<'a> {
    of: &'a Turns,
    object: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.of.taken().remove(&self.object);
        self.of.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn an_object_has_one_turn_at_a_time_and_others_have_theirs() {
        let (turns, inside) = (Turns::default(), AtomicUsize::new(0));
        let other = turns.take(1);
        let rounds = || {
            for _ in 0..1000 {
                let _turn = turns.take(2);
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                inside.fetch_sub(1, SeqCst);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(rounds);
            }
        });
        drop(other);
        assert!(turns.taken().is_empty());
    }
}
