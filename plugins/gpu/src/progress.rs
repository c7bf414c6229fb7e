//! How far work is: asking the driver, and waiting with a limit.
//!
//! A driver that cannot answer says nothing about the work. So `Err` means that the question failed, and work that
//! failed is an answer (`Progress::Failed`).

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::deadline::Deadline;

use crate::current::Entered;
use crate::fault::Fault;
use crate::vendor::{Answer, ErrorKind, Vendor};

/// How far something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It may still run.
    Running,
    /// It is over, and did what it was asked to.
    Done,
    /// It is over, and failed.
    Failed(Fault),
}

impl Progress {
    /// Whether nothing of it runs any more.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }

    /// Adds a failure from elsewhere, where the work itself is done.
    pub(crate) fn and(self, verdict: impl FnOnce() -> Result<(), Fault>) -> Self {
        match self {
            Self::Done => verdict().map_or_else(Self::Failed, |()| Self::Done),
            other => other,
        }
    }

    /// Asks the driver how far work is. A driver answers a failed question and failed work alike. So a failure is
    /// asked once more: only one that is answered twice is the work's.
    pub(crate) fn ask<V: Vendor>(
        inside: &Entered<'_, V>,
        question: impl Fn(&V) -> Answer,
    ) -> Result<Self, Fault> {
        let Err(code) = question(inside.vendor()) else {
            return Ok(Self::Done);
        };
        // These can come from the work alone: every driver has the question, and its arguments are valid.
        let of_work = [
            ErrorKind::Fatal,
            ErrorKind::OutOfMemory,
            ErrorKind::Invalid,
            ErrorKind::Unsupported,
            ErrorKind::Permission,
            ErrorKind::Other,
        ];
        let may_be_work = |sort| of_work.contains(&sort);
        let code = match V::error_kind(code) {
            ErrorKind::NotReady => return Ok(Self::Running),
            sort if may_be_work(sort) => match question(inside.vendor()) {
                Ok(()) => return Ok(Self::Done),
                Err(again) if V::error_kind(again) == ErrorKind::NotReady => {
                    return Ok(Self::Running);
                }
                Err(again) if may_be_work(V::error_kind(again)) => again,
                Err(again) => return Err(inside.fault(again).of_question()),
            },
            _ => return Err(inside.fault(code).of_question()),
        };
        let fault = inside.fault(code);
        let status = fault.status.as_failure_of_work();
        Ok(Self::Failed(fault.with_status(status)))
    }
}

/// Asks until the work is over or the deadline is.
pub(crate) fn wait_until_over(
    deadline: Deadline,
    ask: impl Fn() -> Result<Progress, Fault>,
) -> Result<Progress, Fault> {
    let over = wait_until(deadline, || ask().map(|now| now.is_over().then_some(now)))?;
    Ok(over.unwrap_or(Progress::Running))
}

/// Asks until there is an answer or the deadline is over: at once for some rounds, then in pauses that grow with the
/// wait.
pub(crate) fn wait_until<T>(
    deadline: Deadline,
    ask: impl Fn() -> Result<Option<T>, Fault>,
) -> Result<Option<T>, Fault> {
    let begun = Instant::now();
    for round in 0_u32.. {
        let answer = ask()?;
        if answer.is_some() || deadline.is_over() {
            return Ok(answer);
        }
        if round < BUSY_ROUNDS {
            std::thread::yield_now();
            continue;
        }
        // So the end is noticed late by at most 1/32 of the wait, or by the shortest pause.
        let pause = begun.elapsed() / 32;
        rest(deadline.at_most(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)));
    }
    Ok(None)
}

/// Sleeps: the driver has no wait with a limit.
fn rest(until: Deadline) {
    let (nothing, never) = (Mutex::new(()), Condvar::new());
    let held = nothing.lock().unwrap_or_else(PoisonError::into_inner);
    drop(until.wait_while(&never, held, |()| true));
}

/// So often is asked before any pause.
pub(crate) const BUSY_ROUNDS: u32 = 64;
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
