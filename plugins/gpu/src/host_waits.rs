//! The pending host events that the streams of a device wait for.
//!
//! Streams share hardware queues, and a queue runs in order. A marker that is recorded behind another stream's wait for a
//! host event is reached after that event, even if the work before the marker is over. So a wait of the host records
//! none while such a host event is pending.

use std::sync::{Mutex, PoisonError, RwLock, TryLockError};

use crate::device::locked;
use crate::promise::Promises;

/// The host events that the streams of one device wait for.
#[derive(Debug, Default)]
pub(crate) struct HostWaits {
    pending: Mutex<Promises>,
    /// Read-locked to submit a wait, write-locked to record a marker, and held during the driver call. So a marker is
    /// never queued behind a wait that its thread did not see in `pending`.
    order: RwLock<()>,
}

impl HostWaits {
    /// Submits a wait of a stream for host events, or for work that waits for them.
    pub(crate) fn submit<T>(&self, awaited: &Promises, wait: impl FnOnce() -> T) -> T {
        {
            let mut pending = locked(&self.pending);
            *pending = pending.pending();
            pending.join(awaited);
        }
        let _order = self.order.read().unwrap_or_else(PoisonError::into_inner);
        wait()
    }

    /// Submits a wait of a stream for work of a device, which its own host events may delay.
    pub(crate) fn submit_behind<T>(&self, device: &Self, wait: impl FnOnce() -> T) -> T {
        if std::ptr::eq(self, device) {
            return wait();
        }
        self.submit(&device.pending(), wait)
    }

    /// Records a marker on a stream that itself waits for the host events `own`. Returns `None`, without calling
    /// `record`, if a stream waits for any other pending host event or a wait is being submitted.
    pub(crate) fn record_marker<T>(&self, own: &Promises, record: impl FnOnce() -> T) -> Option<T> {
        // This thread never waits for one that submits a wait: the driver may block that one.
        let _order = match self.order.try_write() {
            Ok(order) => order,
            Err(TryLockError::Poisoned(order)) => order.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.pending().are_among(own).then(record)
    }

    /// Whether a host event is pending that a stream waits for.
    pub(crate) fn are_pending(&self) -> bool {
        !self.pending().is_empty()
    }

    fn pending(&self) -> Promises {
        locked(&self.pending).pending()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fault::Fault;
    use crate::promise::Promise;

    #[test]
    fn no_marker_is_recorded_while_another_stream_waits_for_a_host_event() {
        let (waits, elsewhere) = (HostWaits::default(), HostWaits::default());
        let none = Promises::default();
        let marker = |waits: &HostWaits, own: &Promises| waits.record_marker(own, || ()).is_some();
        assert!(marker(&waits, &none));
        let events = [(); 2].map(|()| Arc::new(Promise::default()));
        for event in &events {
            // None is recorded while the wait is submitted.
            let own = Promises::of(event);
            assert!(!waits.submit(&own, || marker(&waits, &own)));
        }
        elsewhere.submit_behind(&waits, || ());
        assert!(events[0].complete(Ok(()), || ()));
        for waits in [&waits, &elsewhere] {
            assert!(!marker(waits, &none));
            assert!(marker(waits, &Promises::of(&events[1])));
        }
        assert!(events[1].complete(Err(Fault::invalid("test", "a reason")), || ()));
        assert!(marker(&waits, &none) && marker(&elsewhere, &none));
    }

    #[test]
    fn a_wait_is_submitted_behind_a_marker_that_is_being_recorded() {
        let waits = HostWaits::default();
        let event = Arc::new(Promise::default());
        std::thread::scope(|scope| {
            let wait = waits.record_marker(&Promises::default(), || {
                let wait = scope.spawn(|| waits.submit(&Promises::of(&event), || ()));
                while !waits.are_pending() {
                    std::thread::yield_now();
                }
                assert!(!wait.is_finished());
                wait
            });
            wait.unwrap().join().unwrap();
        });
        assert!(waits.are_pending());
    }
}
