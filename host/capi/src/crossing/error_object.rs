//! `xd_error`: why a function failed, part by part.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::ffi::{CStr, CString};

use crossdock_api::{ErrorKind, Failure, Owned, Ref, Status, Text, XdError};
use crossdock_sdk::dlpack::Device;
use crossdock_sdk::fence::fence;

use crate::crossing::boundary::{fence_free, fence_value};
use crate::crossing::object::{Handle, give, look};

impl Handle for XdError {
    type Object = ErrorObject;
    const NAME: &'static str = "error";
}

/// What an error is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) kind: ErrorKind,
    pub(crate) status: Status,
    pub(crate) operation: String,
    pub(crate) plugin: String,
    pub(crate) device: String,
    pub(crate) native_code: i64,
    pub(crate) native_name: String,
    pub(crate) message: String,
    pub(crate) why: String,
    pub(crate) hint: String,
    pub(crate) exception: String,
    pub(crate) traceback: String,
    pub(crate) exit_code: i32,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            kind: ErrorKind::OTHER,
            status: Status::INVALID,
            operation: String::new(),
            plugin: String::new(),
            device: String::new(),
            native_code: 0,
            native_name: String::new(),
            message: String::new(),
            why: String::new(),
            hint: String::new(),
            exception: String::new(),
            traceback: String::new(),
            exit_code: 0,
        }
    }
}

impl Parts {
    /// The same, of this kind.
    pub(crate) fn of(self, kind: ErrorKind, status: Status) -> Self {
        Self {
            kind,
            status,
            ..self
        }
    }

    /// The same, about a device.
    pub(crate) fn on(self, device: Device) -> Self {
        Self {
            device: device.to_string(),
            ..self
        }
    }
}

/// An error with its texts as C reads them.
#[derive(Debug)]
pub(crate) struct ErrorObject {
    kind: ErrorKind,
    status: Status,
    native_code: i64,
    operation: CString,
    plugin: CString,
    device: CString,
    native_name: CString,
    message: CString,
    why: CString,
    hint: CString,
    text: CString,
    exception: CString,
    traceback: CString,
    exit_code: i32,
}

impl ErrorObject {
    pub(crate) const fn status(&self) -> Status {
        self.status
    }

    /// What, why and what to do, as one line; an error that only says what says it as it is.
    pub(crate) fn line(&self) -> String {
        let part = |text: &CStr| {
            let text = text.to_string_lossy();
            text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
        };
        let (why, hint) = (part(&self.why), part(&self.hint));
        let mut line = self.message.to_string_lossy().into_owned();
        if !why.is_empty() {
            line = format!("{line}: {why}");
        }
        if !hint.is_empty() {
            line = format!("{line} ({hint})");
        }
        line
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let part = |name: &str, text: &str| match text {
            "" => String::new(),
            text => format!("\n  {name}: {text}"),
        };
        let (why, hint) = (part("why", &parts.why), part("try", &parts.hint));
        let text = format!("{}{why}{hint}", parts.message);
        Self {
            kind: parts.kind,
            status: parts.status,
            native_code: parts.native_code,
            operation: c_text(parts.operation),
            plugin: c_text(parts.plugin),
            device: c_text(parts.device),
            native_name: c_text(parts.native_name),
            message: c_text(parts.message),
            why: c_text(parts.why),
            hint: c_text(parts.hint),
            text: c_text(text),
            exception: c_text(parts.exception),
            traceback: c_text(parts.traceback),
            exit_code: parts.exit_code,
        }
    }
}

/// A text as C reads it; it ends before a NUL that is inside.
pub(crate) fn c_text(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let end = error.nul_position();
        let mut bytes = error.into_vec();
        bytes.truncate(end);
        CString::new(bytes).unwrap_or_default()
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_create(
    status: Status,
    message: Text<'_>,
    why: Text<'_>,
    hint: Text<'_>,
) -> Failure {
    let text = |text: Text<'_>| {
        let text = text.to_c_str().unwrap_or_default();
        text.to_string_lossy().into_owned()
    };
    let parts = || Parts {
        status: if status == Status::OK {
            Status::INVALID
        } else {
            status
        },
        message: text(message),
        why: text(why),
        hint: text(hint),
        ..Parts::default()
    };
    fence(|| give(ErrorObject::new(parts()))).unwrap_or(Failure::NULL)
}

/// Exports an accessor of a text for each name.
macro_rules! texts {
    ($($function:ident => $part:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $function(error: Ref<'_, XdError>) -> Text<'_> {
            fence_value(|| look(error).map(|error| Text::new(&error.$part)))
        }
    )*};
}

texts! {
    xd_error_operation => operation;
    xd_error_plugin => plugin;
    xd_error_device => device;
    xd_error_native_name => native_name;
    xd_error_message => message;
    xd_error_why => why;
    xd_error_hint => hint;
    xd_error_text => text;
    xd_error_exception => exception;
    xd_error_traceback => traceback;
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_kind(error: Ref<'_, XdError>) -> ErrorKind {
    fence_value(|| look(error).map(|error| error.kind))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_status(error: Ref<'_, XdError>) -> Status {
    fence_value(|| look(error).map(|error| error.status))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_native_code(error: Ref<'_, XdError>) -> i64 {
    fence_value(|| look(error).map(|error| error.native_code))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_exit_code(error: Ref<'_, XdError>) -> i32 {
    fence_value(|| look(error).map(|error| error.exit_code))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_free(error: Owned<XdError>) {
    fence_free(error);
}
