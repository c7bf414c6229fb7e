//! Calls that use a memory now, and views of it that were dropped meanwhile.
//!
//! Between the submission of work and the note of its end nothing else tells that the work is there.
//! Whoever makes the call keeps the memory, but not another device's view of it: that one ends
//! when the last call is over.

use std::sync::PoisonError;

#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// The calls that use one memory, whichever view (`V`) they go through.
#[derive(Debug)]
pub(crate) struct Calls<V> {
    /// How many there are, and [`LEFT`] while views wait for their end.
    count: AtomicUsize,
    left: Mutex<Vec<V>>,
}

impl<V> Default for Calls<V> {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            left: Mutex::new(Vec::new()),
        }
    }
}

/// Some views are to end with the last call.
const LEFT: usize = 1 << (usize::BITS - 1);

/// A call that uses a memory, until this is dropped.
#[derive(Debug)]
pub(crate) struct Call<'a, V>(&'a Calls<V>);

impl<V> Calls<V> {
    /// Begins a call. What it leaves running is noted before it ends.
    #[inline]
    pub(crate) fn begin(&self) -> Call<'_, V> {
        self.count.fetch_add(1, Ordering::AcqRel);
        Call(self)
    }

    /// Whether some call uses the memory.
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) & !LEFT != 0
    }

    /// Leaves a view to the last call; false, and it was not taken, where there is none any more.
    pub(crate) fn leave(&self, view: impl FnOnce() -> V) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = |count: usize| (count & !LEFT != 0).then_some(count | LEFT);
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        let is_marked = self.count.fetch_update(set, read, marked).is_ok();
        if is_marked {
            left.push(view());
        }
        is_marked
    }

    #[cold]
    fn end_views(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        // Another call began: the last one ends them.
        if self.count.compare_exchange(LEFT, 0, set, read).is_err() {
            return;
        }
        let ended = std::mem::take(&mut *left);
        drop(left);
        // Without the lock: this calls hooks.
        drop(ended);
    }
}

impl<V> Drop for Call<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == LEFT + 1 {
            self.0.end_views();
        }
    }
}
