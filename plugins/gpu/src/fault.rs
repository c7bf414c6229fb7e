//! What went wrong inside this plugin, before it becomes a status of the contract.

use std::fmt;

use crossdock_sdk::{abi::Status, handles::HandleError, plugin::Error, pointers::PointerError};

/// One failure: what was being done, what the driver said, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: Status,
    pub(crate) operation: &'static str,
    /// The driver's number, or 0 where the driver was not asked.
    pub(crate) code: i32,
    pub(crate) name: String,
    pub(crate) message: String,
}

impl Fault {
    /// A failure that this plugin found itself.
    pub(crate) fn new(status: Status, operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            operation,
            code: 0,
            name: String::new(),
            message: message.into(),
        }
    }

    /// Nothing was changed; another way may work.
    pub(crate) fn unsupported(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(Status::UNSUPPORTED, operation, message)
    }

    /// The caller's arguments cannot be right.
    pub(crate) fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(Status::INVALID, operation, message)
    }

    /// The address is nobody's that this plugin or the driver knows.
    pub(crate) fn not_owner(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(Status::NOT_OWNER, operation, message)
    }

    /// The same where a question about work failed, and not the work. Some statuses would say that the work is over and
    /// failed (`is_failure_of_work`): `OOM_HOST` takes their place, which leaves that open.
    pub(crate) fn of_question(self) -> Self {
        if self.status.is_failure_of_work() {
            return Self {
                status: Status::OOM_HOST,
                ..self
            };
        }
        self
    }

    /// The same after other calls of this operation have put work on a stream: `UNSUPPORTED` and `CAPTURING` would say
    /// that nothing was, and the host would try another way, or free what that work uses.
    pub(crate) fn of_begun(self) -> Self {
        match self.status {
            Status::UNSUPPORTED | Status::CAPTURING => self.with_status(Status::VENDOR),
            _ => self,
        }
    }

    /// The same with another status.
    pub(crate) fn with_status(self, status: Status) -> Self {
        Self { status, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<HandleError> for Fault {
    fn from(error: HandleError) -> Self {
        let status = match error {
            HandleError::Stale { .. } => Status::STALE,
            _ => Status::OOM_HOST,
        };
        Self::new(status, error.operation(), error.to_string())
    }
}

impl Fault {
    /// A range that the table of addresses did not take.
    pub(crate) fn not_entered(operation: &'static str, error: &PointerError) -> Self {
        match error {
            PointerError::Overlap { .. } => Self::new(
                Status::CONFLICT,
                operation,
                "a part of it is registered or allocated here already",
            ),
            PointerError::Full { .. } => Self::new(Status::OOM_HOST, operation, error.to_string()),
            _ => Self::invalid(operation, error.to_string()),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let error = Self::new(fault.status, fault.operation, fault.message);
        match fault.code {
            0 => error,
            code => error.with_native(i64::from(code), fault.name),
        }
    }
}
