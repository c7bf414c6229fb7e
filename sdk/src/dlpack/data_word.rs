//! The data word of a tensor: an address on some devices, a handle on others.
#![expect(
    unsafe_code,
    reason = "a raw pointer as a plain value needs Send and Sync by hand"
)]

use std::ffi::c_void;
use std::fmt;

/// What DLPack's `data` holds. A plain value: nothing is read or written through it here, and arithmetic on it is the
/// business of code that knows that it is an address ([`DeviceType::is_addressed`](super::DeviceType::is_addressed)).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataWord(*mut c_void);

// SAFETY: the word is a value; every use of it as an address is an `unsafe` operation of its own.
unsafe impl Send for DataWord {}
// SAFETY: as for `Send`; there is no interior state.
unsafe impl Sync for DataWord {}

impl DataWord {
    /// NULL, the word of tensors without elements.
    pub const NULL: Self = Self(std::ptr::null_mut());

    /// The word that is this pointer.
    #[must_use]
    pub const fn from_ptr(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// The word with this number, for devices whose driver hands out integers.
    #[must_use]
    pub fn from_addr(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    /// The pointer.
    #[must_use]
    pub const fn as_ptr(self) -> *mut c_void {
        self.0
    }

    /// The number.
    #[must_use]
    pub fn addr(self) -> usize {
        self.0.addr()
    }

    /// Whether it is NULL.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl fmt::Debug for DataWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.addr())
    }
}
