//! One range: four words under a version word that says whether the range lives.

use super::{
    arena::Line,
    words::{Ordering, fence},
};

/// A live range of addresses, as a pointer query answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointerEntry {
    /// The first address.
    pub base: u64,
    /// The range in bytes, never 0.
    pub size: u64,
    /// The id of the allocation, as the caller of `insert` gave it.
    pub allocation: u64,
    /// A word of the caller's, for instance where its own entry lies.
    pub payload: u64,
}

impl PointerEntry {
    /// An entry to put into the table.
    #[must_use]
    pub const fn new(base: u64, size: u64, allocation: u64, payload: u64) -> Self {
        Self {
            base,
            size,
            allocation,
            payload,
        }
    }

    /// Whether the address lies in the range.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        // Below the base this wraps to more than any size can be.
        address.wrapping_sub(self.base) < self.size
    }

    /// The last address of the range.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.base.wrapping_add(self.size.wrapping_sub(1))
    }
}

/// A record's line. The version is odd while the range lives and even while it does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a>(pub(super) &'a Line);

impl Record<'_> {
    /// Fills a dead record. The caller holds the lock of the shard.
    pub(super) fn prepare(self, entry: &PointerEntry) {
        let [_, base, size, allocation, payload, ..] = &self.0.0;
        // A reader that sees a word from below also sees the version that `retire` wrote.
        fence(Ordering::Release);
        base.store(entry.base, Ordering::Relaxed);
        size.store(entry.size, Ordering::Relaxed);
        allocation.store(entry.allocation, Ordering::Relaxed);
        payload.store(entry.payload, Ordering::Relaxed);
    }

    /// The moment at which the range begins to exist.
    pub(super) fn publish(self) {
        self.step();
    }

    /// The moment at which the range ends to exist.
    pub(super) fn retire(self) {
        self.step();
    }

    /// The range, if it lived when this began.
    ///
    /// No retry: a version that changed says that the range died meanwhile, and then `None`
    /// was right at that moment.
    #[inline(always)]
    pub(super) fn read(self) -> Option<PointerEntry> {
        let [version, base, size, allocation, payload, ..] = &self.0.0;
        let before = version.load(Ordering::Acquire);
        if before & 1 == 0 {
            return None;
        }
        let entry = PointerEntry {
            base: base.load(Ordering::Relaxed),
            size: size.load(Ordering::Relaxed),
            allocation: allocation.load(Ordering::Relaxed),
            payload: payload.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (version.load(Ordering::Relaxed) == before).then_some(entry)
    }

    /// Where the range starts. The record may not live yet, or no more.
    pub(super) fn base(self) -> u64 {
        let [_, base, ..] = &self.0.0;
        base.load(Ordering::Relaxed)
    }

    fn step(self) {
        let [version, ..] = &self.0.0;
        // Only the holder of the shard's lock writes it.
        let next = version.load(Ordering::Relaxed).wrapping_add(1);
        version.store(next, Ordering::Release);
    }
}
