//! The error of a hook, on the plugin's side.
#![expect(
    unsafe_code,
    reason = "the error object crosses the boundary as a raw pointer"
)]

use std::borrow::Cow;

use crate::abi::{RawError, Status, Text};

/// Why a hook failed: status, operation, the vendor's code and name, one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct Error {
    status: Status,
    operation: Cow<'static, str>,
    native_code: i64,
    native_name: Cow<'static, str>,
    message: Cow<'static, str>,
}

impl Error {
    /// A failure of `operation` (the vendor's call, or the hook), with one sentence that says why.
    ///
    /// [`Status::OK`] is no failure and becomes [`Status::ABI`], so that no host reads an answer
    /// that was never written.
    #[must_use]
    pub fn new(
        status: Status,
        operation: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status: if status.is_ok() { Status::ABI } else { status },
            operation: operation.into(),
            native_code: 0,
            native_name: Cow::Borrowed(""),
            message: message.into(),
        }
    }

    /// The answer of a hook that does not take these arguments and has changed nothing.
    #[must_use]
    pub fn unsupported(operation: &'static str) -> Self {
        Self::new(
            Status::UNSUPPORTED,
            operation,
            "not offered for these arguments",
        )
    }

    /// The same failure with the vendor's code and the code's name.
    #[must_use]
    pub fn with_native(mut self, code: i64, name: impl Into<Cow<'static, str>>) -> Self {
        self.native_code = code;
        self.native_name = name.into();
        self
    }

    /// The result code.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The call that failed.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The vendor's number, or 0.
    #[must_use]
    pub const fn native_code(&self) -> i64 {
        self.native_code
    }

    /// The vendor's name of that number, or empty.
    #[must_use]
    pub fn native_name(&self) -> &str {
        &self.native_name
    }

    /// Why.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Moves the error to the heap in the form that crosses the boundary. [`Self::free_raw`] frees
    /// it: plugins through the shims, and other makers of a table of hooks.
    #[must_use]
    pub fn into_raw(self) -> *mut RawError {
        let mut owned = Box::new(Owned {
            raw: RawError::empty(self.status),
            error: self,
        });
        owned.raw.native_code = owned.error.native_code;
        owned.raw.operation = Text::borrow(&owned.error.operation);
        owned.raw.native_name = Text::borrow(&owned.error.native_name);
        owned.raw.message = Text::borrow(&owned.error.message);
        Box::into_raw(owned).cast::<RawError>()
    }

    /// Frees what [`Self::into_raw`] made.
    ///
    /// # Safety
    /// - `raw` is NULL or came from `into_raw` of this library and was not freed yet.
    pub unsafe fn free_raw(raw: *mut RawError) {
        if raw.is_null() {
            return;
        }
        // SAFETY: by the caller's promise this is a live `Owned`, whose first field is the
        // `RawError` that `raw` points at (`repr(C)`).
        drop(unsafe { Box::from_raw(raw.cast::<Owned>()) });
    }
}

/// The heap form: the texts that `raw` borrows live in `error` beside it.
#[repr(C)]
struct Owned {
    raw: RawError,
    error: Error,
}

impl RawError {
    const fn empty(status: Status) -> Self {
        Self {
            status,
            reserved: 0,
            native_code: 0,
            operation: Text::EMPTY,
            native_name: Text::EMPTY,
            message: Text::EMPTY,
        }
    }
}
