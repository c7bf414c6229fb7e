//! From this plugin's own answers to the contract's.

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::Error;

use crate::copy::Refusal;
use crate::event::{Failure, Outcome};
use crate::memory::NoMemory;
use crate::pointers::NotEntered;

/// The error for memory that was not given.
pub(crate) fn no_memory(operation: &'static str, why: NoMemory) -> Error {
    let status = match why {
        NoMemory::Exhausted { .. } => Status::OOM_DEVICE,
        NoMemory::Alignment { alignment } if alignment.is_power_of_two() => Status::UNSUPPORTED,
        NoMemory::Alignment { .. } => Status::INVALID,
    };
    Error::new(status, operation, why.to_string())
}

/// The error for a copy that cannot be planned.
pub(crate) fn refusal(operation: &'static str, why: Refusal) -> Error {
    let status = match why {
        // Axes that interleave without overlapping are refused too: another way may copy them.
        Refusal::OverlappingDestination | Refusal::ElementBits { .. } => Status::UNSUPPORTED,
        Refusal::RankMismatch | Refusal::NegativeExtent | Refusal::TooLarge => Status::INVALID,
    };
    Error::new(status, operation, why.to_string())
}

/// The error for a range that cannot be entered.
pub(crate) fn not_entered(operation: &'static str, why: NotEntered) -> Error {
    let status = match why {
        NotEntered::NoRange => Status::INVALID,
        NotEntered::Overlaps(_) => Status::CONFLICT,
        NotEntered::Full => Status::OOM_HOST,
    };
    Error::new(status, operation, why.to_string())
}

/// How work on a stream ended.
pub(crate) fn outcome(operation: &'static str, outcome: Outcome) -> Result<(), Error> {
    outcome.map_err(|failure: Failure| {
        Error::new(failure.status(), operation, failure.reason().to_owned())
    })
}

/// How work on a stream ended, if it has.
pub(crate) fn ended(
    operation: &'static str,
    ended: Option<Outcome>,
    otherwise: Status,
) -> Result<(), Error> {
    let pending = || Error::new(otherwise, operation, "the work is still pending");
    outcome(operation, ended.ok_or_else(pending)?)
}
