//! Managed tensors from outside: only the ownership is believed, and it is given back once.
#![expect(
    unsafe_code,
    reason = "the struct belongs to somebody else and is read through a raw pointer"
)]

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::data_word::DataWord;
use super::device_type::Device;
use super::error::DlpackError;
use super::flags::Flags;
use super::layout::{DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, VERSION};
use super::produced::{is_own_export, owner_of};
use super::strided::Layout;
use super::tensor_view::TensorView;
use super::validate::validate;

/// A managed tensor taken over from a producer. It was checked and copied; dropping it calls the deleter, once, on
/// whichever thread that happens. Nothing is ever written into the producer's struct.
#[derive(Debug)]
pub struct Received {
    view: TensorView,
    managed: Ownership,
}

impl Received {
    /// Takes over a tensor of DLPack 1.x. The version is read before anything else.
    ///
    /// # Errors
    /// [`DlpackError::Version`] for another major version, and what [`validate`] refuses. The tensor is released in every case:
    /// the deleter is called exactly once, and a NULL deleter is a tensor that needs no release.
    ///
    /// # Safety
    /// - `managed` is a live managed tensor that the caller owns, and gives up with this call, whatever its result.
    /// - Up to `flags` it has the layout that all versions share; with the major version 1 the tensor is as [`validate`] needs it.
    /// - As DLPack demands, its deleter may be called from any thread.
    #[inline(always)]
    pub unsafe fn from_versioned(
        managed: NonNull<DLManagedTensorVersioned>,
    ) -> Result<Self, DlpackError> {
        // SAFETY: the caller's promise, passed on.
        let taken = unsafe { Self::take_versioned(managed) };
        taken.inspect_err(|_refused| drop(Ownership(Struct::Versioned(managed))))
    }

    /// The same, but that a tensor which is refused stays the caller's.
    ///
    /// # Errors
    /// As [`Received::from_versioned`].
    ///
    /// # Safety
    /// As [`Received::from_versioned`].
    #[inline(always)]
    pub unsafe fn take_versioned(
        managed: NonNull<DLManagedTensorVersioned>,
    ) -> Result<Self, DlpackError> {
        // SAFETY: every version begins with its version.
        let version = unsafe { managed.as_ptr().cast::<DLPackVersion>().read_unaligned() };
        if version.major != VERSION.major {
            return Err(DlpackError::Version {
                found_major: version.major,
                found_minor: version.minor,
                own_major: VERSION.major,
            });
        }
        // SAFETY: the caller promises a live struct, and its layout is that of this major version.
        let copy = unsafe { managed.as_ptr().read_unaligned() };
        // SAFETY: the caller promises what `validate` needs.
        let view = unsafe { validate(&copy.dl_tensor, Flags::from_raw(copy.flags)) }?;
        Ok(Self {
            view,
            managed: Ownership(Struct::Versioned(managed)),
        })
    }

    /// Takes over a tensor of DLPack 0.x. It counts as read-only, because its struct cannot say that it is not.
    ///
    /// # Errors
    /// What [`validate`] refuses, and elements of one bit: `MXNet` and old versions of TVM mean a bool of a whole byte.
    /// The tensor is released as by [`Received::from_versioned`].
    ///
    /// # Safety
    /// - `managed` is a live managed tensor that the caller owns, and gives up with this call, whatever its result.
    /// - The tensor is as [`validate`] needs it, and its deleter may be called from any thread.
    pub unsafe fn from_legacy(managed: NonNull<DLManagedTensor>) -> Result<Self, DlpackError> {
        // SAFETY: the caller's promise, passed on.
        let taken = unsafe { Self::take_legacy(managed) };
        taken.inspect_err(|_refused| drop(Ownership(Struct::Legacy(managed))))
    }

    /// The same, but that a tensor which is refused stays the caller's.
    ///
    /// # Errors
    /// As [`Received::from_legacy`].
    ///
    /// # Safety
    /// As [`Received::from_legacy`].
    pub unsafe fn take_legacy(managed: NonNull<DLManagedTensor>) -> Result<Self, DlpackError> {
        // SAFETY: the caller promises a live struct.
        let copy = unsafe { managed.as_ptr().read_unaligned() };
        // SAFETY: the caller promises what `validate` needs.
        let view = unsafe { validate(&copy.dl_tensor, Flags::READ_ONLY) }?;
        if view.layout().dtype().bits() == 1 {
            return Err(DlpackError::LegacyCannotSay {
                what: "how elements of one bit lie",
                version: "1.0 or later",
            });
        }
        Ok(Self {
            view,
            managed: Ownership(Struct::Legacy(managed)),
        })
    }

    /// What was checked, apart from the ownership of it.
    #[must_use]
    #[inline]
    pub fn into_parts(self) -> (TensorView, Ownership) {
        (self.view, self.managed)
    }

    /// What was checked.
    #[must_use]
    pub const fn view(&self) -> &TensorView {
        &self.view
    }

    /// Dtype, shape and strides.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        self.view.layout()
    }

    /// The address or handle.
    #[must_use]
    pub const fn data(&self) -> DataWord {
        self.view.data()
    }

    /// Bytes from [`Received::data`] to the first element.
    #[must_use]
    pub const fn byte_offset(&self) -> u64 {
        self.view.byte_offset()
    }

    /// The device that the producer claims.
    #[must_use]
    pub const fn device(&self) -> Device {
        self.view.device()
    }

    /// The flags; a legacy tensor is read-only.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.view.flags()
    }

    /// Whether it came in the struct of DLPack 0.x.
    #[must_use]
    pub const fn is_legacy(&self) -> bool {
        matches!(self.managed.0, Struct::Legacy(_))
    }

    /// Whether this library made it.
    #[must_use]
    pub fn is_own_export(&self) -> bool {
        match self.managed.0 {
            // SAFETY: alive until dropped, and the major version was checked.
            Struct::Versioned(managed) => unsafe { is_own_export(managed) },
            // SAFETY: alive until dropped.
            Struct::Legacy(managed) => unsafe { is_own_export(managed) },
        }
    }

    /// The owner that this library exported, if it is an `O`.
    #[must_use]
    pub fn owner_of<O: Send + Sync + 'static>(&self) -> Option<&O> {
        match self.managed.0 {
            // SAFETY: alive until dropped, which the borrow of `self` prevents; the major version was checked.
            Struct::Versioned(managed) => unsafe { owner_of(managed) },
            // SAFETY: as above.
            Struct::Legacy(managed) => unsafe { owner_of(managed) },
        }
    }
}

/// The right and duty to call a tensor's deleter: dropping it does so, once, on whichever thread that happens.
pub struct Ownership(Struct);

#[derive(Clone, Copy)]
enum Struct {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Legacy(NonNull<DLManagedTensor>),
}

// SAFETY: DLPack lets the deleter be called from any thread, and `from_versioned` and `from_legacy` ask for that.
unsafe impl Send for Ownership {}
// SAFETY: through `&Ownership` the struct is only read, nobody writes to it, and `owner_of` asks for a `Sync` owner.
unsafe impl Sync for Ownership {}

/// A deleter as a function of any tensor: DLPack's two differ in what their pointer points to.
pub type Deleter = unsafe extern "C" fn(tensor: *mut c_void);

impl Ownership {
    /// That of a tensor of DLPack 1.x.
    ///
    /// # Safety
    /// - `managed` is a live managed tensor that the caller owns, and gives up with this call; its deleter may be
    ///   called from any thread.
    #[must_use]
    pub const unsafe fn of_versioned(managed: NonNull<DLManagedTensorVersioned>) -> Self {
        Self(Struct::Versioned(managed))
    }

    /// The right and duty in other hands: the deleter, where there is one, is to be called once with the
    /// pointer, on any thread.
    #[must_use]
    #[inline]
    pub fn into_deleter(self) -> (Option<Deleter>, *mut c_void) {
        ManuallyDrop::new(self).deleter()
    }

    #[inline]
    fn deleter(&self) -> (Option<Deleter>, *mut c_void) {
        let (place, tensor): (*const Option<Deleter>, _) = match self.0 {
            Struct::Versioned(managed) => {
                // SAFETY: the struct is alive; the deleter's place is the same in all versions.
                let place = unsafe { &raw const (*managed.as_ptr()).deleter };
                (place.cast(), managed.as_ptr().cast())
            }
            Struct::Legacy(managed) => {
                // SAFETY: the struct is alive.
                let place = unsafe { &raw const (*managed.as_ptr()).deleter };
                (place.cast(), managed.as_ptr().cast())
            }
        };
        // SAFETY: alive, though nobody promised that it is aligned; functions that differ in what their
        // pointer points to are called alike.
        (unsafe { place.read_unaligned() }, tensor)
    }
}

impl Drop for Ownership {
    #[inline]
    fn drop(&mut self) {
        if let (Some(deleter), tensor) = self.deleter() {
            // SAFETY: owned, and released only here. The struct is not touched afterwards.
            unsafe { deleter(tensor) };
        }
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Struct::Versioned(managed) => f.debug_tuple("Versioned").field(&managed).finish(),
            Struct::Legacy(managed) => f.debug_tuple("Legacy").field(&managed).finish(),
        }
    }
}
