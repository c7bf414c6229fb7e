//! The elements of a tensor as compact bytes of the caller.
#![expect(unsafe_code, reason = "reads and writes bytes of callers")]

use std::ffi::c_void;

use crossdock_api::{Failure, Ref, XdTensor};

use crate::crossing::boundary::fence_call;
use crate::crossing::failure::{On as _, Refusal};
use crate::crossing::input;
use crate::crossing::object::borrow_tensor;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_read(
    tensor: Ref<'_, XdTensor>,
    bytes: *mut c_void,
    size: u64,
) -> Failure {
    fence_call("xd_tensor_read", || {
        let tensor = borrow_tensor(tensor)?;
        check_size(size, tensor.nbytes())?;
        // SAFETY: the caller passes NULL or `size` bytes that nobody else uses during the call.
        let bytes = unsafe { input::array_mut(bytes.cast::<u8>(), size, "bytes") }?;
        tensor.read_into(bytes).on(tensor.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_write(
    tensor: Ref<'_, XdTensor>,
    bytes: *const c_void,
    size: u64,
) -> Failure {
    fence_call("xd_tensor_write", || {
        let tensor = borrow_tensor(tensor)?;
        check_size(size, tensor.nbytes())?;
        // SAFETY: the caller passes NULL or `size` readable bytes.
        let bytes = unsafe { input::array(bytes.cast::<u8>(), size, "bytes") }?;
        tensor.write(bytes).on(tensor.device())
    })
}

fn check_size(given: u64, expected: u64) -> Result<(), Refusal> {
    if given == expected {
        return Ok(());
    }
    Err(Refusal::Argument {
        why: format!("{given} bytes were given, the tensor has {expected}"),
        hint: "give room for all elements of the tensor, and for no more; a part of it is a view of \
               its own",
    })
}
