//! Why a function did not do what it was asked to.

use crossdock::Error;
use crossdock_api::{ErrorKind, Failure, Status};
use crossdock_sdk::dlpack::DlpackError;

use crate::error::{ErrorObject, Parts};
use crate::object::give;

/// Why a function failed, before it is an error object.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The runtime says why.
    Runtime(Error),
    /// An argument is wrong.
    Argument { why: String, hint: &'static str },
    /// It would take a copy.
    CopyRequired { why: String },
    /// Two runtimes want to be the process's.
    SecondDefault,
    /// Another logger is installed.
    SecondLogger,
    /// A panic was caught here.
    Panic(String),
}

impl Refusal {
    /// NULL where something is needed.
    pub(crate) fn null(what: &'static str) -> Self {
        Self::Argument {
            why: format!("{what} is NULL"),
            hint: "pass what the function's documentation asks for",
        }
    }

    /// Another wrong argument.
    pub(crate) fn argument(why: impl Into<String>) -> Self {
        Self::Argument {
            why: why.into(),
            hint: "fix the arguments",
        }
    }

    /// The object that C reads; `function` is the one that failed.
    pub(crate) fn into_object(self, function: &'static str) -> Failure {
        give(ErrorObject::new(self.parts(function)))
    }

    fn parts(self, function: &'static str) -> Parts {
        let own = |kind, status, why: String, hint: &str| Parts {
            kind,
            status,
            operation: function.to_owned(),
            message: format!("call `{function}`"),
            why,
            hint: hint.to_owned(),
            ..Parts::default()
        };
        match self {
            Self::Runtime(error) => of_runtime(&error, function),
            Self::Argument { why, hint } => own(ErrorKind::MISUSE, Status::INVALID, why, hint),
            Self::CopyRequired { why } => own(
                ErrorKind::COPY_REQUIRED,
                Status::UNSUPPORTED,
                why,
                "allow a copy",
            ),
            Self::SecondDefault => own(
                ErrorKind::MISUSE,
                Status::CONFLICT,
                "the process has another runtime already".to_owned(),
                "use that one, or choose the process's runtime before others ask for it",
            ),
            Self::SecondLogger => own(
                ErrorKind::MISUSE,
                Status::CONFLICT,
                "the program has installed a logger of the Rust crate `log`".to_owned(),
                "read the log there",
            ),
            Self::Panic(message) => own(
                ErrorKind::PANIC,
                Status::PANIC,
                message,
                "report this as a bug of Crossdock",
            ),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

/// What the caller described in arguments is not possible. A tensor that a producer made is another
/// matter: its errors come through the runtime's.
impl From<DlpackError> for Refusal {
    fn from(error: DlpackError) -> Self {
        Self::argument(error.to_string())
    }
}

/// An error of the runtime, part by part.
pub(crate) fn of_runtime(error: &Error, function: &'static str) -> Parts {
    let parts = Parts {
        operation: function.to_owned(),
        message: error.to_string(),
        why: error.why(),
        hint: error.hint(),
        ..Parts::default()
    };
    match error {
        Error::Load { .. } => parts.of(ErrorKind::LOAD, Status::INVALID),
        Error::Hook {
            plugin,
            operation,
            status,
            native_code,
            native_name,
            ..
        } => Parts {
            operation: operation.clone(),
            plugin: plugin.clone(),
            native_code: *native_code,
            native_name: native_name.clone(),
            ..parts.of(ErrorKind::HOOK, *status)
        },
        Error::UnknownDevice { device, .. } => parts
            .of(ErrorKind::UNKNOWN_DEVICE, Status::NO_DEVICE)
            .on(*device),
        Error::Exchange(DlpackError::OutOfMemory { .. }) => {
            parts.of(ErrorKind::EXCHANGE, Status::OOM_HOST)
        }
        Error::Exchange(_) => parts.of(ErrorKind::EXCHANGE, Status::INVALID),
        Error::Claim { claimed, .. } => parts.of(ErrorKind::CLAIM, Status::NOT_OWNER).on(*claimed),
        Error::Owners { .. } => parts.of(ErrorKind::CLAIM, Status::CONFLICT),
        Error::Refused { to, .. } => parts.of(ErrorKind::REFUSED, Status::UNSUPPORTED).on(*to),
        Error::Misuse { operation, .. } => Parts {
            operation: (*operation).to_owned(),
            ..parts.of(ErrorKind::MISUSE, Status::INVALID)
        },
        other => parts.of(ErrorKind::OTHER, other.status().unwrap_or(Status::INVALID)),
    }
}
