//! A pointer to something immutable that lives as long as the process.
#![expect(
    unsafe_code,
    reason = "a pointer to constants may be shared between threads"
)]

use abi_stable::StableAbi;

/// A pointer from a table to constant data of the same library, or NULL.
#[repr(transparent)]
#[derive(StableAbi, Debug)]
pub struct StaticPtr<T>(*const T);

// SAFETY: what it points at is constant from the moment the table can be seen until the process
// ends, so any thread may read it.
unsafe impl<T: Sync> Sync for StaticPtr<T> {}
// SAFETY: as above; it owns nothing.
unsafe impl<T: Sync> Send for StaticPtr<T> {}

impl<T> Clone for StaticPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for StaticPtr<T> {}

impl<T> StaticPtr<T> {
    /// Absent.
    pub const NULL: Self = Self(core::ptr::null());

    /// Points at `target`.
    #[must_use]
    pub const fn new(target: &'static T) -> Self {
        Self(core::ptr::from_ref(target))
    }

    /// The raw pointer, NULL where absent.
    #[must_use]
    pub const fn as_ptr(self) -> *const T {
        self.0
    }

    /// Whether it is absent.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl StaticPtr<u8> {
    /// Points at the first byte of `text`.
    #[must_use]
    pub const fn text(text: &'static str) -> Self {
        Self(text.as_ptr())
    }
}
