//! Waits for devices, which a signal ends: Python runs its handlers between two slices.

use std::time::{Duration, Instant};

use crossdock_api::{NO_LIMIT, Status};
use pyo3::prelude::*;

use crate::error::Failed;
use crate::interpreter::detached;

/// So late may a handler run.
const SLICE: Duration = Duration::from_millis(100);

/// Waits by `wait`, which takes a limit in nanoseconds, without the interpreter.
///
/// # Errors
/// What `wait` answered, `TIMEOUT` only after the limit; what the handler of a signal raised.
pub(crate) fn wait(
    py: Python<'_>,
    limit: u64,
    wait: impl Fn(u64) -> Result<(), Failed> + Sync,
) -> PyResult<()> {
    let begin = Instant::now();
    let longest = u64::try_from(SLICE.as_nanos()).unwrap_or(NO_LIMIT);
    loop {
        let (left, at) = (left(limit, begin), begin.elapsed());
        let slice = left.min(longest);
        match detached(py, || wait(slice)) {
            Ok(()) => return Ok(()),
            // A timeout that comes much too early ends no slice.
            Err(failed)
                if left <= slice
                    || failed.status() != Status::TIMEOUT
                    || begin.elapsed().saturating_sub(at) < SLICE / 2 =>
            {
                return Err(failed.into());
            }
            Err(_slice_passed) => py.check_signals()?,
        }
    }
}

/// What is left of a limit in nanoseconds, of a wait that began then.
pub(crate) fn left(limit: u64, begin: Instant) -> u64 {
    let passed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(NO_LIMIT);
    match limit {
        NO_LIMIT => NO_LIMIT,
        limit => limit.saturating_sub(passed),
    }
}
