//! What went wrong inside this plugin, before it becomes a status of the contract.

use std::fmt;

use crossdock_sdk::{abi::Status, handles::HandleError, plugin::Error};

use crate::convert;

/// The sort of failure, as the contract counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    Unsupported,
    OutOfDeviceMemory,
    OutOfHostMemory,
    NoDriver,
    NoDevice,
    DeviceLost,
    NotOwner,
    Conflict,
    Timeout,
    NotReady,
    Forked,
    Exiting,
    Retired,
    Stale,
    Vendor,
    /// What the host completed an event with.
    Given(Status),
}

/// One failure: what was being done, what the driver said, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) operation: &'static str,
    /// The driver's number, or 0 where the driver was not asked.
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Fault {
    /// A failure that this plugin found itself.
    pub(crate) fn new(kind: Kind, operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            operation,
            code: 0,
            message: message.into(),
        }
    }

    /// A failure that the driver reported for the call `operation`.
    pub(crate) fn native(operation: &'static str, code: i32) -> Self {
        Self {
            kind: convert::kind_of(code),
            operation,
            code,
            message: format!("`{operation}` returned {code} ({})", convert::name_of(code)),
        }
    }

    /// Nothing was changed; another way may work.
    pub(crate) fn unsupported(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, operation, message)
    }

    /// The same as an answer to whether work is over, which a question that failed leaves open.
    ///
    /// Drivers answer a question as they answer for work, so what would say that the work failed
    /// becomes a lack of resources for the question.
    pub(crate) fn of_question(self) -> Self {
        if convert::status_of(self.kind).is_failure_of_work() {
            return Self {
                kind: Kind::OutOfHostMemory,
                ..self
            };
        }
        self
    }

    /// The caller's arguments cannot be right.
    pub(crate) fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, operation, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<HandleError> for Fault {
    fn from(error: HandleError) -> Self {
        let kind = match error {
            HandleError::Stale { .. } => Kind::Stale,
            _ => Kind::OutOfHostMemory,
        };
        Self::new(kind, error.operation(), error.to_string())
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let error = Self::new(
            convert::status_of(fault.kind),
            fault.operation,
            fault.message,
        );
        match fault.code {
            0 => error,
            code => error.with_native(i64::from(code), convert::name_of(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_failed_says_nothing_of_the_work() {
        for code in [-2, -5, -6, -58, -9999] {
            let fault = Fault::native("clGetEventInfo", code).of_question();
            let status = convert::status_of(fault.kind);
            assert!(!status.is_failure_of_work(), "{code} became {status}");
            assert_eq!(fault.code, code);
        }
    }
}
