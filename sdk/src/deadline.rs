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
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_limit_that_the_clock_cannot_tell_is_none() {
        assert_eq!(Deadline::after(Some(Duration::MAX)).left(), None);
        assert!(Deadline::after(limit(NO_LIMIT - 1)).left() > Some(Duration::from_secs(1 << 33)));
    }
}
