//! Failures of a device's stream of allocations that threads cleared in the driver.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often threads cleared a failure of the stream of allocations in the driver: then it is cleared for the allocations
/// of other threads too, which cannot see it any more.
#[derive(Debug, Default)]
pub(crate) struct ClearedFailures {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl ClearedFailures {
    pub(crate) fn clear(&self, clear: impl FnOnce()) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        clear();
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// `None` while a thread clears one.
    pub(crate) fn count(&self) -> Option<u64> {
        // In this order: equal numbers mean that none was being cleared in between.
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_is_cleared_during_an_allocation_changes_the_count() {
        let cleared = ClearedFailures::default();
        let before = cleared.count();
        assert_eq!(before, Some(0));
        let mut during = before;
        cleared.clear(|| during = cleared.count());
        // Whether it began before the failure was cleared, or meanwhile.
        assert_eq!(during, None);
        assert_eq!(cleared.count(), Some(1));
    }
}
