//! A wrong producer: a managed tensor made by hand, whose deleter counts.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock_sdk::dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLTensor, DlpackError, Received, VERSION,
};

/// A producer's struct with everything it points to; its deleter counts and then poisons the struct.
pub(crate) struct Forged {
    pub(crate) managed: DLManagedTensorVersioned,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    released: Box<AtomicUsize>,
}

unsafe extern "C" fn count_and_poison(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the context is the counter of a `Forged` that outlives the call.
    let context = unsafe { (*managed).manager_ctx };
    // SAFETY: as above.
    let released = unsafe { &*context.cast::<AtomicUsize>() };
    released.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the struct is alive; a use after this reads nonsense.
    unsafe {
        managed
            .cast::<u8>()
            .write_bytes(0xa5, size_of::<DLManagedTensorVersioned>())
    };
}

impl Forged {
    pub(crate) fn new(shape: &[i64], strides: Option<&[i64]>) -> Self {
        let mut shape = shape.to_vec();
        let mut own_strides = strides.unwrap_or_default().to_vec();
        let released = Box::new(AtomicUsize::new(0));
        let dl_tensor = DLTensor {
            data: std::ptr::without_provenance_mut(0x1000),
            device: DLDevice {
                device_type: 1,
                device_id: 0,
            },
            ndim: i32::try_from(shape.len()).unwrap(),
            dtype: DLDataType {
                code: 2,
                bits: 32,
                lanes: 1,
            },
            shape: shape.as_mut_ptr(),
            strides: if strides.is_some() {
                own_strides.as_mut_ptr()
            } else {
                null_mut()
            },
            byte_offset: 0,
        };
        let manager_ctx = (&raw const *released).cast_mut().cast();
        let deleter: unsafe extern "C" fn(*mut DLManagedTensorVersioned) = count_and_poison;
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx,
            deleter: Some(deleter),
            flags: 0,
            dl_tensor,
        };
        Self {
            managed,
            shape,
            strides: own_strides,
            released,
        }
    }

    pub(crate) fn import(&mut self) -> Result<Received, DlpackError> {
        // SAFETY: the struct and its numbers live as long as `self`, which outlives the result in every test.
        unsafe { Received::from_versioned(NonNull::from(&mut self.managed)) }
    }

    pub(crate) fn released(&self) -> usize {
        self.released.load(Ordering::SeqCst)
    }
}

/// What a tensor with one thing wrong is refused for; it is released once.
#[track_caller]
pub(crate) fn refused(change: impl FnOnce(&mut Forged)) -> DlpackError {
    let mut forged = Forged::new(&[2, 3], Some(&[3, 1]));
    change(&mut forged);
    let error = forged.import().expect_err("a wrong tensor is refused");
    assert_eq!(forged.released(), 1, "the deleter is called once: {error}");
    error
}
