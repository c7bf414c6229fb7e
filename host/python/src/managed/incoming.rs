//! A managed tensor that was taken from its producer: released once, whatever happens to it.
#![expect(unsafe_code, reason = "reads and gives on managed tensors of others")]

use std::ptr::NonNull;

use crossdock_api::{DLDevice, DLManagedTensor, DLManagedTensorVersioned, Flags, Ref, XdTensor};
use pyo3::prelude::*;

use crate::link::error::Failed;
use crate::link::handle::{Handle, made};
use crate::link::process_runtime::{look_for, runtime};
use crate::link::table::api;
use crate::managed::capsule::{CapsuleKind as _, MAJOR};
use crate::managed::py_owner;

/// A tensor that this code owns.
#[derive(Debug)]
pub(crate) struct Incoming(pub(crate) Kind);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Legacy(NonNull<DLManagedTensor>),
}

impl Incoming {
    /// Where it says that it lies; `None` where its version is unknown.
    pub(crate) fn device(&self) -> Option<DLDevice> {
        match self.0 {
            Kind::Versioned(tensor) => {
                self.is_known().then(|| {
                    // SAFETY: alive, and of a version whose layout this is.
                    let place = unsafe { &raw const (*tensor.as_ptr()).dl_tensor.device };
                    // SAFETY: as above; nothing is said of its alignment.
                    unsafe { place.read_unaligned() }
                })
            }
            Kind::Legacy(tensor) => {
                // SAFETY: alive.
                let place = unsafe { &raw const (*tensor.as_ptr()).dl_tensor.device };
                // SAFETY: as above.
                Some(unsafe { place.read_unaligned() })
            }
        }
    }

    /// Whether the producer says that it is a copy, which nobody else has.
    pub(crate) fn is_copied(&self) -> bool {
        match self.0 {
            Kind::Versioned(tensor) if self.is_known() => {
                // SAFETY: alive, and of a version whose layout this is.
                let place = unsafe { &raw const (*tensor.as_ptr()).flags };
                // SAFETY: as above.
                let flags = unsafe { place.read_unaligned() };
                flags & Flags::IS_COPIED.raw() != 0
            }
            _ => false,
        }
    }

    /// Whether its values are complex numbers.
    pub(crate) fn is_complex(&self) -> bool {
        const COMPLEX: [u8; 2] = [5, 18];
        let place = match self.0 {
            // SAFETY: alive, and of a version whose layout this is.
            Kind::Versioned(tensor) if self.is_known() => unsafe {
                &raw const (*tensor.as_ptr()).dl_tensor.dtype
            },
            Kind::Versioned(_) => return false,
            // SAFETY: alive.
            Kind::Legacy(tensor) => unsafe { &raw const (*tensor.as_ptr()).dl_tensor.dtype },
        };
        // SAFETY: as above; nothing is said of its alignment.
        COMPLEX.contains(&unsafe { place.read_unaligned() }.code)
    }

    fn is_known(&self) -> bool {
        match self.0 {
            Kind::Versioned(tensor) => {
                // SAFETY: alive; every version begins with it.
                let place = unsafe { &raw const (*tensor.as_ptr()).version };
                // SAFETY: as above.
                unsafe { place.read_unaligned() }.major == MAJOR
            }
            Kind::Legacy(_) => true,
        }
    }

    /// The runtime's tensor of it.
    ///
    /// # Errors
    /// What `xd_tensor_import` answers; the tensor is released.
    #[inline]
    pub(crate) fn import(self, py: Python<'_>) -> PyResult<Handle<XdTensor>> {
        // A failure before the call leaves `self` to its drop.
        let runtime = runtime(py)?;
        if let Some(claim) = self.device() {
            look_for(py, runtime, claim);
        }
        let kind = std::mem::ManuallyDrop::new(self).0;
        let imported: Result<_, Failed> = match kind {
            Kind::Versioned(tensor) => made(|out| {
                // SAFETY: this code owned it, and gives it up.
                unsafe { (api().tensor_import)(runtime.lend(), tensor.as_ptr(), Ref::NULL, out) }
            }),
            Kind::Legacy(tensor) => made(|out| {
                // SAFETY: as above.
                unsafe {
                    (api().tensor_import_legacy)(runtime.lend(), tensor.as_ptr(), Ref::NULL, out)
                }
            }),
        };
        Ok(imported?)
    }
}

// SAFETY: the struct is only read, and its deleter may be called from every thread.
unsafe impl Send for Incoming {}
// SAFETY: as above.
unsafe impl Sync for Incoming {}

impl Drop for Incoming {
    fn drop(&mut self) {
        let (deleter, tensor) = match self.0 {
            // SAFETY: alive, and the struct keeps the deleter's place in every version.
            Kind::Versioned(tensor) => unsafe { DLManagedTensorVersioned::deleter(tensor) },
            // SAFETY: alive.
            Kind::Legacy(tensor) => unsafe { DLManagedTensor::deleter(tensor) },
        };
        if let Some(deleter) = deleter {
            // SAFETY: owned, and released only here.
            unsafe { py_owner::release_foreign(deleter, tensor) };
        }
    }
}
