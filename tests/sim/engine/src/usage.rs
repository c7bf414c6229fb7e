//! How much of memory is used and kept for later, of a device and of each pool.

/// What is reserved and used of a device's memory, in bytes, and the most that was. Pinned memory does not
/// count. An idealised pool: what is kept is cut and joined as it is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Used, and kept for later.
    pub reserved: u64,
    /// Allocated, up to where a stream has freed it.
    pub used: u64,
    /// The most that was reserved.
    pub peak_reserved: u64,
    /// The most that was used.
    pub peak_used: u64,
}

impl Usage {
    /// Counts memory that is used from here on. What is kept serves first.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.used += bytes;
        self.reserved = self.reserved.max(self.used);
        self.peak_used = self.peak_used.max(self.used);
        self.peak_reserved = self.peak_reserved.max(self.reserved);
    }

    /// Gives kept memory back, until at most so much is reserved, or all of that is used.
    pub(crate) fn trim(&mut self, reserved: u64) {
        self.reserved = self.reserved.min(reserved.max(self.used));
    }

    pub(crate) fn reset_peaks(&mut self) {
        self.peak_used = self.used;
        self.peak_reserved = self.reserved;
    }
}
