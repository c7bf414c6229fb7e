//! Tensors on their way: a managed tensor of DLPack that somebody owns.
#![expect(unsafe_code, reason = "calls deleters of managed tensors")]

use std::ffi::CStr;
use std::ptr::NonNull;

use crossdock_sdk::dlpack::DLManagedTensorVersioned;
use crossdock_sdk::fence::fence;

use crate::python::libpython::PyObject;
use crate::python::open::Python;

/// The name of a capsule that owns its tensor.
pub(crate) const NAME: &CStr = c"dltensor_versioned";
/// The name of one whose tensor was taken.
pub(crate) const USED: &CStr = c"used_dltensor_versioned";

/// An owned tensor of DLPack 1.x: dropping it calls its deleter.
#[derive(Debug)]
pub struct Managed(NonNull<DLManagedTensorVersioned>);

// SAFETY: DLPack lets a deleter be called on any thread, and `from_raw` asks for that.
unsafe impl Send for Managed {}

impl Managed {
    /// Takes a tensor over.
    ///
    /// # Safety
    /// - `tensor` is a live tensor of DLPack 1.x that the caller owns and gives up; its deleter may
    ///   be called on any thread.
    #[must_use]
    pub const unsafe fn from_raw(tensor: NonNull<DLManagedTensorVersioned>) -> Self {
        Self(tensor)
    }

    /// The tensor, which the caller now owns.
    #[must_use]
    pub fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: owned, so it is alive.
        let deleter = unsafe { (*self.0.as_ptr()).deleter };
        if let Some(deleter) = deleter {
            // SAFETY: owned, and released only here.
            unsafe { deleter(self.0.as_ptr()) };
        }
    }
}

/// What ends a capsule: a tensor that nobody took is released.
pub(crate) const DESTRUCTOR: unsafe extern "C" fn(*mut PyObject) = drop_unused;

unsafe extern "C" fn drop_unused(capsule: *mut PyObject) {
    let drop_tensor = || {
        let Some(python) = Python::opened() else {
            return;
        };
        // SAFETY: Python calls this with the lock held, and with its capsule.
        let is_unused = unsafe { python.functions.PyCapsule_IsValid(capsule, NAME.as_ptr()) };
        if is_unused != 0 {
            // SAFETY: as above; the name is right.
            let data = unsafe {
                python
                    .functions
                    .PyCapsule_GetPointer(capsule, NAME.as_ptr())
            };
            // SAFETY: by its name the capsule owns a live tensor, and ends now.
            drop(NonNull::new(data).map(|tensor| unsafe { Managed::from_raw(tensor.cast()) }));
        }
    };
    fence(drop_tensor).unwrap_or_default();
}
