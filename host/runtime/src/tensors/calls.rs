//! Calls that use a memory now, and views of it whose end is deferred until they return.
//!
//! Between the submission of work and the entry of its end nothing tells of the work. The caller
//! keeps the memory, but not another device's view of it: a view that is dropped meanwhile ends
//! with the last call.

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
    /// How many there are, and [`DEFERRED`] while views are to end with the last one.
    count: AtomicUsize,
    deferred: Mutex<Vec<V>>,
}

impl<V> Default for Calls<V> {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            deferred: Mutex::new(Vec::new()),
        }
    }
}

/// Some views are to end with the last call.
const DEFERRED: usize = 1 << (usize::BITS - 1);

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
        self.count.load(Ordering::Acquire) & !DEFERRED != 0
    }

    /// Defers the end of the view that `view` gives to that of the last call. False where there is no
    /// call any more: then `view` was not called.
    pub(crate) fn defer(&self, view: impl FnOnce() -> V) -> bool {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = |count: usize| (count & !DEFERRED != 0).then_some(count | DEFERRED);
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        let is_marked = self.count.fetch_update(set, read, marked).is_ok();
        if is_marked {
            deferred.push(view());
        }
        is_marked
    }

    #[cold]
    fn drop_deferred(&self) {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        // Another call began: the last one ends them.
        if self.count.compare_exchange(DEFERRED, 0, set, read).is_err() {
            return;
        }
        let ended = std::mem::take(&mut *deferred);
        drop(deferred);
        // Without the lock: this calls hooks.
        drop(ended);
    }
}

impl<V> Drop for Call<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == DEFERRED + 1 {
            self.0.drop_deferred();
        }
    }
}
