//! The lost devices of a plugin, each with the failure of the call that noticed. The plugin's other devices go on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

/// A device that is lost stays lost: no vendor gives it back to the process that had it.
#[derive(Debug, Default)]
pub(crate) struct LostDevices {
    /// Whether any device was lost: where none was, a call pays one atomic load.
    any: AtomicBool,
    noticed: Mutex<BTreeMap<u32, Error>>,
}

impl LostDevices {
    /// Remembers that a device is lost, with the failure of the first call that noticed.
    pub(crate) fn remember(&self, device: u32, error: &Error) {
        self.noticed()
            .entry(device)
            .or_insert_with(|| error.clone());
        self.any.store(true, Ordering::Release);
    }

    /// The failure of the call that noticed; `None` where the device is not lost.
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
