//! Numbers for live objects: a number is never reused, so that a stale one is told apart.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::fault::{Fault, Kind};

/// The live objects of one sort.
#[derive(Debug)]
pub(crate) struct Table<T> {
    next: AtomicU64,
    live: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            live: RwLock::new(HashMap::new()),
        }
    }

    /// Gives an object its number.
    pub(crate) fn insert(&self, object: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.insert(number, Arc::new(object));
        number
    }

    /// The object with this number.
    pub(crate) fn find(&self, number: u64, operation: &'static str) -> Result<Arc<T>, Fault> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&number)
            .map(Arc::clone)
            .ok_or_else(|| gone(operation))
    }

    /// Takes an object out; the caller drops it, without the lock.
    pub(crate) fn remove(&self, number: u64, operation: &'static str) -> Result<Arc<T>, Fault> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.remove(&number).ok_or_else(|| gone(operation))
    }

    /// Takes all out; the caller drops them, without the lock.
    pub(crate) fn drain(&self) -> Vec<Arc<T>> {
        let live = std::mem::take(&mut *self.live.write().unwrap_or_else(PoisonError::into_inner));
        live.into_values().collect()
    }

    /// All that are live now.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().map(Arc::clone).collect()
    }
}

fn gone(operation: &'static str) -> Fault {
    Fault::new(
        Kind::Stale,
        operation,
        "the handle names nothing that is alive",
    )
}
