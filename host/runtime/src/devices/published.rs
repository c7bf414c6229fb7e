//! A value that is replaced as a whole: readers take no lock, writers take turns.
//!
//! **Invariants.** A reader has one version, from before a change or after it, for as long as it
//! looks. A change starts from the version that the change before it left. Once [`change`] has
//! returned, every read that begins has that change or a later one.
//!
//! The model checker runs this file with its own lock and counts (`published_loom_tests`). It cannot
//! see into `arc-swap`: there the place is a lock held for one load or one store, which is what that
//! crate promises of both, that each happens at one moment.
//!
//! [`change`]: Published::change

use std::ops::Deref;

#[cfg(not(loom))]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(not(loom))]
use arc_swap::ArcSwap as Place;
#[cfg(loom)]
use loom::sync::{Arc, Mutex};
#[cfg(loom)]
use std::sync::PoisonError;

/// A value and the turn of those who change it.
#[derive(Debug, Default)]
pub(crate) struct Published<T> {
    now: Place<T>,
    /// Held from reading the old version to publishing the new one.
    changing: Mutex<()>,
}

impl<T: Clone> Published<T> {
    /// What there is now, and stays while the answer is held. Takes no lock.
    pub(crate) fn read(&self) -> impl Deref<Target = impl Deref<Target = T>> {
        self.now.load()
    }

    /// Publishes what `edit` makes of the value, shows it to `follow`, and gives the answer of `edit`. One
    /// change at a time, with what follows it; readers do not wait.
    pub(crate) fn change<R>(&self, edit: impl FnOnce(&mut T) -> R, follow: impl FnOnce(&T)) -> R {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = T::clone(&self.now.load());
        let answer = edit(&mut next);
        let next = Arc::new(next);
        self.now.store(Arc::clone(&next));
        follow(&next);
        answer
    }

    /// Waits for a change that is under way, and for what follows it.
    pub(crate) fn settle(&self) {
        drop(self.changing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The place as the model checker sees it: one load or one store at a time.
#[cfg(loom)]
#[derive(Debug)]
struct Place<T>(Mutex<Arc<T>>);

#[cfg(loom)]
impl<T: Default> Default for Place<T> {
    fn default() -> Self {
        Self(Mutex::new(Arc::new(T::default())))
    }
}

#[cfg(loom)]
impl<T> Place<T> {
    fn load(&self) -> Box<Arc<T>> {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(Arc::clone(&place))
    }

    fn store(&self, next: Arc<T>) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, next);
        drop(place);
        drop(old);
    }
}
