//! Texts of C: UTF-8 with a NUL at the end.
#![expect(unsafe_code, reason = "reads texts that C vouches for")]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;

/// `const char *`: a text that is lent for `'a`. May be NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// NULL.
    pub const NULL: Self = Self(std::ptr::null(), PhantomData);

    /// The empty text.
    pub const EMPTY: Self = Self::new(c"");

    /// Lends `text`.
    #[must_use]
    pub const fn new(text: &'a CStr) -> Self {
        Self(text.as_ptr(), PhantomData)
    }

    /// The pointer that C has.
    ///
    /// # Safety
    /// - `text` is NULL, or readable up to and with a NUL, and unchanged, during `'a`.
    #[must_use]
    pub const unsafe fn from_raw(text: *const c_char) -> Self {
        Self(text, PhantomData)
    }

    /// The pointer.
    #[must_use]
    pub const fn as_ptr(self) -> *const c_char {
        self.0
    }

    /// The text; `None` for NULL.
    #[must_use]
    pub const fn to_c_str(self) -> Option<&'a CStr> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: every `Text` that is not NULL ends with a NUL and is lent for `'a`.
        Some(unsafe { CStr::from_ptr(self.0) })
    }
}

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_c_str().fmt(f)
    }
}

// SAFETY: it is a shared borrow of bytes.
unsafe impl Send for Text<'_> {}
// SAFETY: as above.
unsafe impl Sync for Text<'_> {}
