//! What the script thread is asked to do, and what comes back.

use std::time::{Duration, Instant};

use crossdock_sdk::threads::SignalMask;

use crate::failure::{Failure, Kind};
use crate::python::value::{Argument, Value};

/// The number of a request; none is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

/// What a request came to.
pub(crate) type Answer = Result<Value, Failure>;

/// The work that is asked for: a function of `sessions.py` and its arguments.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) session: u64,
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<Argument>,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
    /// That of the thread that asks. The script blocks the same signals, and so does what it starts.
    pub(crate) signals: SignalMask,
    /// `None`: a caller waits for the answer, and keeps the limits. Otherwise who waits behind it does.
    pub(crate) unawaited: Option<Limits>,
}

/// When a request is to be worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Behind all others.
    Any,
    /// At once or not at all.
    Now,
    /// As [`Self::Now`], because a script that others run may wait for the caller.
    OfScript,
}

/// How long a script may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write both numbers out")]
pub struct Limits {
    /// From its start to the first interrupt; `None`: for ever.
    pub timeout: Option<Duration>,
    /// From the first interrupt to the second, after which the script counts as stuck.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: None,
            grace: Duration::from_millis(500),
        }
    }
}

/// Who asked a script to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Interrupt,
    Timeout,
    Exit,
}

/// The request to stop that a script was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) cause: Cause,
    /// When the last one was sent.
    pub(crate) at: Instant,
    /// When the first one was.
    pub(crate) since: Instant,
    /// How many were sent because the time was over.
    pub(crate) timeouts: u32,
    /// From when on its exception is to be raised: since it was sent, or since Python ignored it.
    pub(crate) due: Instant,
    /// The exception of the last one is raised.
    pub(crate) is_claimed: bool,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its code does not run yet.
    Entering,
    /// Its code runs and can be interrupted.
    Inside,
    /// Its code has ended.
    Leaving,
}

/// What the script thread does now.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) ticket: Ticket,
    pub(crate) session: u64,
    pub(crate) since: Instant,
    pub(crate) phase: Phase,
    pub(crate) stop: Option<Stop>,
    /// Where it hangs: nobody waits behind it any more.
    pub(crate) stuck: Option<String>,
    pub(crate) is_awaited: bool,
    /// The limits of one for whose answer no caller ever waited.
    pub(crate) unawaited: Option<Limits>,
}

/// What an interrupt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The script was stopped, or handled the exception; what waited was not begun.
    Delivered,
    /// Nothing ran in the session, or it had ended before the interrupt came.
    Idle,
    /// It runs on for now: native code is running, which sees the interrupt when it returns, or the
    /// script catches the exception.
    Pending,
}

/// What a session does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing.
    Idle,
    /// It waits for its turn.
    Waiting,
    /// A script runs for that long.
    Running(Duration),
    /// It was asked to stop and has not yet.
    Stopping(Duration),
    /// It runs for that long and did not stop; where, as far as it is known.
    Stuck(Duration, String),
}

pub(crate) fn stuck(place: &str) -> Failure {
    Failure::new(Kind::Stuck, "stop a script that took too long").because(
        format!("it still runs, {place}: native code, or it catches what stops it"),
        "wait until it ends: nothing can stop native code in its own process",
    )
}

pub(crate) fn closed() -> Failure {
    Failure::new(Kind::Closed, "run a script").because(
        "the process, or the Python in it, is ending",
        "run scripts before that",
    )
}

pub(crate) fn stopped(cause: Cause) -> Failure {
    match cause {
        Cause::Interrupt => Failure::new(Kind::Interrupted, "run a script")
            .because("it was interrupted", "nothing, if that was meant"),
        Cause::Timeout => Failure::new(Kind::Timeout, "run a script").because(
            "it took longer than it may",
            "give it more time, or find out what it waits for",
        ),
        Cause::Exit => closed(),
    }
}
