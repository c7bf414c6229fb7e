//! How long a wait may take, in the three ways in which it is said.
//!
//! Hooks take nanoseconds, Rust a duration or none, and a wait of several steps needs what is left.
//!
//! ```
//! use std::time::Duration;
//! use crossdock_sdk::deadline::{Deadline, NO_LIMIT, limit};
//!
//! assert_eq!(limit(1_500), Some(Duration::from_nanos(1_500)));
//! assert_eq!(limit(NO_LIMIT), None);
//!
//! let deadline = Deadline::after(limit(0));
//! assert_eq!(deadline.left(), Some(Duration::ZERO));
//! assert_eq!(Deadline::after(None).left(), None);
//! ```
//!
//! A hook that waits takes nanoseconds from its call on, and sleeps until something happened or they passed:
//!
//! ```
//! use std::sync::{Condvar, Mutex, PoisonError};
//! use crossdock_sdk::abi::Status;
//! use crossdock_sdk::deadline::{Deadline, limit};
//! use crossdock_sdk::plugin::Error;
//!
//! #[derive(Default)]
//! struct Event {
//!     happened: Mutex<bool>,
//!     changed: Condvar,
//! }
//!
//! fn event_synchronize(event: &Event, timeout_ns: u64) -> Result<(), Error> {
//!     let happened = event.happened.lock().unwrap_or_else(PoisonError::into_inner);
//!     let deadline = Deadline::after(limit(timeout_ns));
//!     if *deadline.wait_while(&event.changed, happened, |happened| !*happened) {
//!         return Ok(());
//!     }
//!     Err(Error::new(Status::TIMEOUT, "event_synchronize", "the event is still pending"))
//! }
//! assert_eq!(event_synchronize(&Event::default(), 1_000).unwrap_err().status(), Status::TIMEOUT);
//! ```

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What hooks take for a wait without a limit.
pub const NO_LIMIT: u64 = u64::MAX;

/// A limit as hooks take it, in nanoseconds; `None` is no limit.
#[must_use]
pub const fn limit(nanoseconds: u64) -> Option<Duration> {
    match nanoseconds {
        NO_LIMIT => None,
        nanoseconds => Some(Duration::from_nanos(nanoseconds)),
    }
}

/// When a wait ends that has several steps, each of which takes a limit of its own.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The end of a wait that begins now. There is none without a limit, or where the clock cannot
    /// tell a time so late.
    #[must_use]
    pub fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// The limit of the next step: zero once the time is over, `None` where there is no end.
    #[must_use]
    pub fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether the time is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// This end, or `longest` from now where that is sooner: for a loop that looks now and then whether
    /// something happened, because nobody tells it.
    #[must_use]
    pub fn at_most(self, longest: Duration) -> Self {
        Self::after(Some(self.left().map_or(longest, |left| left.min(longest))))
    }

    /// Sleeps while `is_pending`, and until this end at the latest. Without any time left it does not sleep.
    ///
    /// The state behind the lock says which it was: `changed` may have been told at the last moment. The thread
    /// that makes it not pending does so under the lock, and then tells `changed`. A panic of another holder
    /// of the lock is passed over.
    pub fn wait_while<'a, T>(
        self,
        changed: &Condvar,
        state: MutexGuard<'a, T>,
        is_pending: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        match self.left() {
            Some(Duration::ZERO) => state,
            Some(left) => {
                let woken = changed.wait_timeout_while(state, left, is_pending);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = changed.wait_while(state, is_pending);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn what_is_left_grows_smaller_and_ends_at_zero() {
        let deadline = Deadline::after(Some(Duration::from_secs(3600)));
        let first = deadline.left();
        assert!(first <= Some(Duration::from_secs(3600)) && deadline.left() <= first);
        assert_eq!(
            Deadline::after(Some(Duration::ZERO)).left(),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn a_slice_ends_with_the_whole() {
        let hour = Duration::from_secs(3600);
        let ended = Deadline::after(Some(Duration::ZERO));
        assert!(ended.is_over() && ended.at_most(hour).is_over());
        let endless = Deadline::after(None);
        assert!(!endless.is_over() && endless.at_most(hour).left() <= Some(hour));
        assert!(
            Deadline::after(Some(hour))
                .at_most(Duration::ZERO)
                .is_over()
        );
    }

    #[test]
    fn a_wait_ends_when_it_is_told_or_with_its_time() {
        let (state, changed) = (Mutex::new(0), Condvar::new());
        let is_zero = |state: &mut i32| *state == 0;
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            let deadline = Deadline::after(Some(limit));
            let waited = deadline.wait_while(&changed, state.lock().unwrap(), is_zero);
            assert!(*waited == 0 && deadline.is_over());
        }
        for limit in [None, Some(Duration::from_secs(3600))] {
            *state.lock().unwrap() = 0;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    *state.lock().unwrap() = 7;
                    changed.notify_all();
                });
                let deadline = Deadline::after(limit);
                let waited = deadline.wait_while(&changed, state.lock().unwrap(), is_zero);
                assert_eq!(*waited, 7);
            });
        }
    }

    #[test]
    fn a_limit_that_the_clock_cannot_tell_is_none() {
        assert_eq!(Deadline::after(Some(Duration::MAX)).left(), None);
        assert!(Deadline::after(limit(NO_LIMIT - 1)).left() > Some(Duration::from_secs(1 << 33)));
    }
}
