//! The devices of a plugin that were lost, each with the call that noticed. The others go on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

/// A device that is lost stays lost: no vendor gives it back to the process that had it.
#[derive(Debug, Default)]
pub(crate) struct LostDevices {
    /// Whether there are any: calls on other devices pay one load.
    any: AtomicBool,
    noticed: Mutex<BTreeMap<u32, Error>>,
}

impl LostDevices {
    /// Remembers that a device is lost, by what the first call was told that noticed.
    pub(crate) fn note(&self, device: u32, error: &Error) {
        self.noticed()
            .entry(device)
            .or_insert_with(|| error.clone());
        self.any.store(true, Ordering::Release);
    }

    /// What the call was told that noticed.
    #[inline]
    pub(crate) fn of(&self, device: u32) -> Option<Error> {
        match self.any.load(Ordering::Acquire) {
            true => self.noticed().get(&device).cloned(),
            false => None,
        }
    }

    fn noticed(&self) -> MutexGuard<'_, BTreeMap<u32, Error>> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
