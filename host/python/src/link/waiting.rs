//! Waits for devices, which a signal ends: Python runs its handlers between two slices.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crossdock_api::{NO_LIMIT, Status, Thread};
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::Failed;

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

/// The same for a wait whose end is what there is at the call: many calls, one after another, would never
/// end where new work always comes. So one that takes longer than a slice goes on in a thread; it does so
/// too where the handler of a signal has ended this.
///
/// # Errors
/// As [`wait`].
pub(crate) fn wait_once(
    py: Python<'_>,
    limit: u64,
    wait: impl Fn(u64) -> Result<(), Failed> + Send + Sync + Clone + 'static,
) -> PyResult<()> {
    let begin = Instant::now();
    let slice = limit.min(u64::try_from(SLICE.as_nanos()).unwrap_or(NO_LIMIT));
    match detached(py, || wait(slice)) {
        Err(failed) if slice < limit && failed.status() == Status::TIMEOUT => py.check_signals()?,
        ended => return Ok(ended?),
    }
    let (ends, mut ended) = sync_channel(1);
    let (call, process) = (wait.clone(), std::process::id());
    let rest = left(limit, begin);
    // A waiter that has gone does not listen any more.
    let thread = move || ends.send(call(rest)).unwrap_or_default();
    if let Err(_refused) = Thread::named("crossdock-python-wait").spawn(thread) {
        return self::wait(py, rest, wait);
    }
    loop {
        let (told, back) = detached(py, move || (ended.recv_timeout(SLICE), ended));
        ended = back;
        match told {
            Ok(ended) => return Ok(ended?),
            // A handler may have forked: the child has no such thread.
            Err(RecvTimeoutError::Timeout) if std::process::id() == process => {
                py.check_signals()?
            }
            Err(_gone) => return self::wait(py, left(limit, begin), wait),
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
