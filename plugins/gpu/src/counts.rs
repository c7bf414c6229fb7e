//! What a device's memory is counted as: by us, because a pool of the vendor's counts what is freed only when its
//! stream got there.

use std::sync::Mutex;

use crate::device::locked;

/// Bytes in use now, and the most that there were.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<Bytes>);

/// What is used and reserved, and the most that there was of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bytes {
    pub(crate) used: u64,
    pub(crate) peak_used: u64,
    pub(crate) peak_reserved: u64,
}

impl Counts {
    pub(crate) fn add(&self, bytes: u64) {
        let mut now = locked(&self.0);
        now.used = now.used.saturating_add(bytes);
        now.peak_used = now.peak_used.max(now.used);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        let mut now = locked(&self.0);
        now.used = now.used.saturating_sub(bytes);
    }

    /// What is used, and what is reserved at most so far, of which `reserved` are now.
    pub(crate) fn look(&self, reserved: u64) -> Bytes {
        let mut now = locked(&self.0);
        now.peak_reserved = now.peak_reserved.max(reserved).max(now.used);
        *now
    }

    /// Begins the peaks anew.
    pub(crate) fn reset(&self, reserved: u64) {
        let mut now = locked(&self.0);
        now.peak_used = now.used;
        now.peak_reserved = reserved.max(now.used);
    }
}
