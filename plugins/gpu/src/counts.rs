//! Bytes of a device's memory in use. They are counted here, since the vendor's pool still counts what `free` gave back
//! until the stream of allocations got there. Memory that is freed on a stream counts as used until that stream got there,
//! here too.

use std::sync::Mutex;

use crate::device::locked;

/// The counts of one device.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<Bytes>);

/// Bytes in use, and the most that was ever used and reserved.
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

    /// Takes note of the bytes that are reserved now, and returns the counts.
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
