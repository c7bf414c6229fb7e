//! Waits for devices, which a signal ends: Python runs its handlers between two slices.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
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

/// Waits for one slice: whether the wait ended in it. If not, its limit is longer.
///
/// # Errors
/// As [`wait`].
pub(crate) fn first_slice(
    py: Python<'_>,
    limit: u64,
    wait: impl Fn(u64) -> Result<(), Failed> + Sync,
) -> PyResult<bool> {
    let slice = limit.min(u64::try_from(SLICE.as_nanos()).unwrap_or(NO_LIMIT));
    match detached(py, || wait(slice)) {
        Err(failed) if slice < limit && failed.status() == Status::TIMEOUT => {
            py.check_signals()?;
            Ok(false)
        }
        ended => Ok(ended.map(|()| true)?),
    }
}

/// What [`wait_once`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The work of the device with this DLPack pair.
    Device(i32, i32),
    Releases,
}

/// A wait that goes on in its thread.
struct Waiter {
    of: Of,
    /// The process that has the thread: the child of a fork has not.
    process: u32,
    outcome: Receiver<Result<(), Failed>>,
}

/// The waits that went on when a signal ended their calls. The next call of the same kind takes the outcome, so
/// that no failure is lost, and no thread is added.
static INTERRUPTED: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());

/// The same for a wait whose end is what there is at the call: many calls, one after another, would never
/// end where new work always comes. So one that takes longer than a slice goes on in a thread.
///
/// # Errors
/// As [`wait`].
pub(crate) fn wait_once(
    py: Python<'_>,
    of: Of,
    limit: u64,
    wait: impl Fn(u64) -> Result<(), Failed> + Send + Sync + Clone + 'static,
) -> PyResult<()> {
    let begin = Instant::now();
    while let Some(waiter) = interrupted(of) {
        match waiter.join(py, left(limit, begin))? {
            Joined::Ended(Err(failed)) if failed.status() != Status::TIMEOUT => {
                return Err(failed.into());
            }
            Joined::Ended(_) | Joined::Gone => {}
            Joined::Late => return Ok(detached(py, || wait(0))?),
        }
    }
    if first_slice(py, left(limit, begin), &wait)? {
        return Ok(());
    }
    let (sender, outcome) = sync_channel(1);
    let (call, process) = (wait.clone(), std::process::id());
    let rest = left(limit, begin);
    // A waiter that is gone does not listen.
    let thread = move || sender.send(call(rest)).unwrap_or_default();
    if let Err(_refused) = Thread::named("crossdock-python-wait").spawn(thread) {
        return self::wait(py, rest, wait);
    }
    let waiter = Waiter {
        of,
        process,
        outcome,
    };
    match waiter.join(py, NO_LIMIT)? {
        Joined::Ended(ended) => Ok(ended?),
        Joined::Gone | Joined::Late => self::wait(py, left(limit, begin), wait),
    }
}

/// Takes a wait of this kind that a signal interrupted.
fn interrupted(of: Of) -> Option<Waiter> {
    let mut all = INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    let found = |waiter: &Waiter| waiter.of == of && waiter.process == process;
    let at = all.iter().position(found)?;
    Some(all.swap_remove(at))
}

/// How a join of a waiter ended.
enum Joined {
    Ended(Result<(), Failed>),
    /// The thread is not in this process: the handler of a signal forked.
    Gone,
    /// The limit passed.
    Late,
}

impl Waiter {
    /// Waits for the outcome; keeps the waiter for the next call if the handler of a signal raises, or if the limit
    /// passes.
    fn join(self, py: Python<'_>, limit: u64) -> PyResult<Joined> {
        let begin = Instant::now();
        let Self {
            of,
            process,
            mut outcome,
        } = self;
        loop {
            let slice = SLICE.min(Duration::from_nanos(left(limit, begin)));
            let (answer, back) = detached(py, move || (outcome.recv_timeout(slice), outcome));
            outcome = back;
            match answer {
                Ok(ended) => return Ok(Joined::Ended(ended)),
                Err(RecvTimeoutError::Timeout) if std::process::id() == process => {}
                Err(_gone) => return Ok(Joined::Gone),
            }
            let raised = py.check_signals();
            if raised.is_err() || left(limit, begin) == 0 {
                let mut all = INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(Self {
                    of,
                    process,
                    outcome,
                });
                return raised.map(|()| Joined::Late);
            }
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
