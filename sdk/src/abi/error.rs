//! The error object that a plugin makes and frees.

use abi_stable::StableAbi;

use super::Status;

/// UTF-8 text by pointer and length; not NUL-terminated. NULL with length 0 is the empty text.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Text {
    /// First byte, or NULL when `len` is 0.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: u64,
}

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self {
        ptr: core::ptr::null(),
        len: 0,
    };

    /// Borrows `text`; the caller keeps it alive for as long as the other side may read it.
    #[must_use]
    pub const fn borrow(text: &str) -> Self {
        Self {
            ptr: text.as_ptr(),
            len: text.len() as u64,
        }
    }
}

/// What went wrong in a hook. Made by a plugin, read by the host, freed by the plugin's
/// `error_free`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct RawError {
    /// Never [`Status::OK`].
    pub status: Status,
    /// Zero.
    pub reserved: u32,
    /// The vendor's number, or 0.
    pub native_code: i64,
    /// The call that failed: the vendor's function, or the hook's own name.
    pub operation: Text,
    /// The vendor's name of `native_code`, or empty.
    pub native_name: Text,
    /// One sentence: why.
    pub message: Text,
}
