//! Why a call was refused, or what the work before it came to.

use crate::{Report, Site};

/// How work failed: the status that a fault or a host event gave, and the call that submitted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{site} failed with status {status}")]
pub struct Failure {
    /// The number that the fault plan, or the one that completed a host event, chose.
    pub status: i32,
    /// The call that submitted what failed.
    pub site: Site,
}

/// What a call of the engine can answer beside success.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream or event does not exist, or was destroyed.
    #[error("{what} does not exist or was destroyed; use handles that this engine gave")]
    Stale {
        /// The handle.
        what: String,
    },
    /// An argument is wrong.
    #[error("{why}")]
    Invalid {
        /// Which one, and what would be right.
        why: String,
    },
    /// The device has too little memory left.
    #[error("device {device} has {free} bytes left and not {bytes}; free some, or configure more")]
    OutOfMemory {
        /// Index of the device.
        device: u32,
        /// Asked for.
        bytes: u64,
        /// Left.
        free: u64,
    },
    /// A wait ended by its limit.
    #[error("the wait ended by its limit; the work goes on")]
    TimedOut,
    /// The work before this point failed, or a fault refused this call.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Nothing can complete what was waited for.
    #[error("standstill: {0}")]
    Standstill(Box<Report>),
    /// A host function called the engine, which no vendor allows.
    #[error("a host function must not call the engine; let it signal a thread that does")]
    InHostFunction,
    /// Memory of another process is not there any more, or is not for this one to open.
    #[error("the memory of another process is not there; open it while that one runs and has it")]
    Gone,
    /// The process is a child that was forked after the engine was made.
    #[error("the engine does not work in a forked child; make one there")]
    Forked,
    /// The system refused something.
    #[error("{operation}: the system answered {code}")]
    System {
        /// The call.
        operation: &'static str,
        /// Its `errno`.
        code: i32,
    },
}
