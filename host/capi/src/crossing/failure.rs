//! Why a function did not do what it was asked to.

use crossdock::Error;
use crossdock_api::{ErrorKind, Failure, Status};
use crossdock_embed::Kind;
use crossdock_sdk::dlpack::{Device, DlpackError};

use crate::crossing::error_object::{ErrorObject, Parts};
use crate::crossing::object::give;

/// Why a function failed, before it is an error object.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The runtime says why.
    Runtime(Error),
    /// The runtime says why, of a device.
    On(Error, Device),
    /// A script failed, or could not be run.
    Script(Box<crossdock_embed::Failure>),
    /// An argument is wrong.
    Argument { why: String, hint: &'static str },
    /// It would take a copy.
    CopyRequired { why: String },
    /// No device is what was asked for.
    NoDevice { why: String },
    /// Two runtimes want to be the process's.
    SecondDefault,
    /// Another logger is installed.
    SecondLogger,
    /// A second function that deleters of others are called through.
    SecondGate,
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

    /// NULL where a handle is needed.
    pub(crate) fn no_handle(what: &'static str) -> Self {
        Self::Argument {
            why: format!(
                "{what} is NULL, which an object of C++ is that is empty: it was moved from"
            ),
            hint: "pass a live handle; in C++ use the object that it was moved to, or `share()` it \
                   before",
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
            Self::On(error, device) => of_runtime(&error, function).on(device),
            Self::Script(failure) => of_script(*failure, function),
            Self::Argument { why, hint } => own(ErrorKind::MISUSE, Status::INVALID, why, hint),
            Self::CopyRequired { why } => own(
                ErrorKind::COPY_REQUIRED,
                Status::UNSUPPORTED,
                why,
                "allow a copy",
            ),
            Self::NoDevice { why } => own(
                ErrorKind::UNKNOWN_DEVICE,
                Status::NO_DEVICE,
                why,
                "run `crossdock devices` to see what is here and what is absent",
            ),
            Self::SecondDefault => own(
                ErrorKind::MISUSE,
                Status::CONFLICT,
                "the process has another runtime already".to_owned(),
                "use that one everywhere (`Runtime::process()`, `xd_runtime_default`), or make yours the \
                 process's first (`make_process_runtime()`, `xd_runtime_make_default`)",
            ),
            Self::SecondGate => own(
                ErrorKind::MISUSE,
                Status::CONFLICT,
                "tensors of others are given back through another function already".to_owned(),
                "call that one from yours, or set yours alone",
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

/// Says of which device an error of a hook is.
pub(crate) trait On<T> {
    /// That of `device`, where its plugin is the one that failed.
    fn on(self, device: &crossdock::Device) -> Result<T, Refusal>;

    /// That of the one whose plugin failed; of none where both have the same.
    fn on_one_of(self, one: &crossdock::Device, other: &crossdock::Device) -> Result<T, Refusal>;
}

impl<T> On<T> for Result<T, Error> {
    fn on(self, device: &crossdock::Device) -> Result<T, Refusal> {
        self.map_err(|error| match &error {
            Error::Hook { plugin, .. } if plugin == device.plugin().name() => {
                let device = device.id();
                Refusal::On(error, device)
            }
            _ => Refusal::Runtime(error),
        })
    }

    fn on_one_of(self, one: &crossdock::Device, other: &crossdock::Device) -> Result<T, Refusal> {
        let (first, second) = (one.plugin().name(), other.plugin().name());
        match &self {
            _ if first == second && one != other => Ok(self?),
            Err(Error::Hook { plugin, .. }) if plugin == second => self.on(other),
            _ => self.on(one),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<crossdock_embed::Failure> for Refusal {
    fn from(failure: crossdock_embed::Failure) -> Self {
        Self::Script(Box::new(failure))
    }
}

/// What the caller described in arguments is not possible. A tensor that a producer made is another
/// matter: its errors come through the runtime's.
impl From<DlpackError> for Refusal {
    fn from(error: DlpackError) -> Self {
        match error {
            // Nobody described too little memory.
            DlpackError::OutOfMemory { .. } => Self::Runtime(error.into()),
            error => Self::argument(error.to_string()),
        }
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
        Error::UnknownAddress { .. } => parts.of(ErrorKind::UNKNOWN_DEVICE, Status::NO_DEVICE),
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

/// A failure of scripts, part by part. Its kind says what it is; the status is the nearest one.
fn of_script(failure: crossdock_embed::Failure, function: &'static str) -> Parts {
    let (kind, status) = match failure.kind {
        Kind::NoPython => (ErrorKind::NO_PYTHON, Status::UNSUPPORTED),
        Kind::Mismatch => (ErrorKind::PYTHON_MISMATCH, Status::CONFLICT),
        Kind::Exception => (ErrorKind::SCRIPT, Status::INVALID),
        Kind::Exit(_) => (ErrorKind::SCRIPT_EXIT, Status::INVALID),
        Kind::Interrupted => (ErrorKind::SCRIPT_INTERRUPTED, Status::TIMEOUT),
        Kind::Timeout => (ErrorKind::SCRIPT_TIMEOUT, Status::TIMEOUT),
        Kind::Stuck => (ErrorKind::SCRIPT_STUCK, Status::TIMEOUT),
        Kind::Busy => (ErrorKind::SCRIPT_BUSY, Status::CONFLICT),
        Kind::Closed => (ErrorKind::SCRIPT_CLOSED, Status::EXITING),
        Kind::Forked => (ErrorKind::OTHER, Status::FORKED),
        Kind::Invalid => (ErrorKind::MISUSE, Status::INVALID),
        Kind::Exhausted => (ErrorKind::OTHER, Status::OOM_HOST),
        _ => (ErrorKind::OTHER, Status::INVALID),
    };
    let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
    Parts {
        operation: function.to_owned(),
        why: or(failure.why(), &failure.message),
        hint: or(failure.hint(), "see why"),
        exit_code: match failure.kind {
            Kind::Exit(code) => code,
            _ => 0,
        },
        exception: failure.exception.unwrap_or_default(),
        traceback: failure.traceback.unwrap_or_default(),
        message: failure.message,
        ..Parts::default()
    }
    .of(kind, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_and_threads_that_are_not_to_be_had_are_no_wrong_arguments() {
        let none = || DlpackError::OutOfMemory { bytes: 1 << 60 };
        let thread = crossdock_embed::Failure::new(Kind::Exhausted, "start a thread for scripts");
        let refusals = [
            Refusal::from(none()),
            Refusal::from(Error::from(none())),
            Refusal::from(thread),
        ];
        for refusal in refusals {
            let parts = refusal.parts("xd_tensor_from_memory");
            assert_eq!(parts.status, Status::OOM_HOST, "{}", parts.message);
            assert_ne!(parts.kind, ErrorKind::MISUSE, "{}", parts.message);
        }
    }
}
