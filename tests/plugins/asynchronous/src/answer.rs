//! From the engine's answers to the contract's.

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::Error;
use crossdock_sim_engine as sim;

/// Why the engine refused a hook, or what it says of the work before a point.
pub(crate) fn refused(operation: &'static str, error: &sim::Error) -> Error {
    let status = match error {
        sim::Error::Stale { .. } => Status::STALE,
        sim::Error::OutOfMemory { .. } => Status::OOM_DEVICE,
        // What stands still is not over.
        sim::Error::TimedOut | sim::Error::Standstill(_) => Status::TIMEOUT,
        sim::Error::Failed(failure) if is_refusal(operation, *failure) => {
            Status::from_raw(failure.status)
        }
        sim::Error::Failed(failure) => Status::from_raw(failure.status).as_failure_of_work(),
        sim::Error::Forked => Status::FORKED,
        sim::Error::System { .. } => Status::OOM_HOST,
        _ => Status::INVALID,
    };
    Error::new(status, operation, error.to_string())
}

/// Whether a fault refused this very call, and nothing is said about the work before it.
pub(crate) fn is_refusal(operation: &'static str, failure: sim::Failure) -> bool {
    failure.site.name() == operation
}

/// The answer of a query: what is pending is `NOT_READY`.
pub(crate) fn queried(
    operation: &'static str,
    answer: Result<bool, sim::Error>,
) -> Result<(), Error> {
    match answer {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::new(
            Status::NOT_READY,
            operation,
            "the work is still pending",
        )),
        Err(error) => Err(refused(operation, &error)),
    }
}
