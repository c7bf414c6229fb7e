//! Work on a tensor in the order of streams.
#![expect(
    unsafe_code,
    reason = "exports functions by name, and reads bytes of callers"
)]

use std::ffi::c_void;

use crossdock_api::{Failure, Out, Owned, Ref, XdEvent, XdStream, XdTensor};
use crossdock_sdk::deadline::limit;

use crate::crossing::boundary::{fence_call, fence_into};
use crate::crossing::failure::{On as _, Refusal};
use crate::crossing::input;
use crate::crossing::object::{borrow, borrow_tensor, give, look};

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_copy_from(
    tensor: Ref<'_, XdTensor>,
    source: Ref<'_, XdTensor>,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_copy_from", || {
        let source = borrow_tensor(source)?;
        let tensor = borrow_tensor(tensor)?;
        let copied = tensor.copy_from(&source, look(stream));
        copied.on_one_of(tensor.device(), source.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_fill(
    tensor: Ref<'_, XdTensor>,
    pattern: *const c_void,
    size: u64,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_fill", || {
        let tensor = borrow_tensor(tensor)?;
        let element = tensor.layout().element_bits().div_ceil(8);
        if size > element.into() {
            let why = format!("{size} bytes were given, an element has {element}");
            return Err(Refusal::argument(why));
        }
        // SAFETY: the caller passes NULL or `size` readable bytes.
        let pattern = unsafe { input::array(pattern.cast::<u8>(), size, "pattern") }?;
        tensor.fill(pattern, look(stream)).on(tensor.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_synchronize(
    tensor: Ref<'_, XdTensor>,
    limit_ns: u64,
) -> Failure {
    fence_call("xd_tensor_synchronize", || {
        let tensor = borrow_tensor(tensor)?;
        tensor.synchronize(limit(limit_ns)).on(tensor.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_ready(
    tensor: Ref<'_, XdTensor>,
    out: Out<'_, Owned<XdEvent>>,
) -> Failure {
    fence_into("xd_tensor_ready", out, || {
        let tensor = borrow_tensor(tensor)?;
        let event = tensor.ready().on(tensor.device())?;
        Ok(event.map_or(Owned::NULL, give))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_wait_to_read(
    tensor: Ref<'_, XdTensor>,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_wait_to_read", || {
        let (tensor, stream) = (borrow_tensor(tensor)?, borrow(stream)?);
        let told = tensor.wait_to_read(stream);
        told.on_one_of(tensor.device(), stream.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_wait_to_write(
    tensor: Ref<'_, XdTensor>,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_wait_to_write", || {
        let (tensor, stream) = (borrow_tensor(tensor)?, borrow(stream)?);
        let told = tensor.wait_to_write(stream);
        told.on_one_of(tensor.device(), stream.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_used_on(
    tensor: Ref<'_, XdTensor>,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_used_on", || {
        let (tensor, stream) = (borrow_tensor(tensor)?, borrow(stream)?);
        let told = tensor.used_on(stream);
        told.on_one_of(tensor.device(), stream.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_written_on(
    tensor: Ref<'_, XdTensor>,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_written_on", || {
        let (tensor, stream) = (borrow_tensor(tensor)?, borrow(stream)?);
        let told = tensor.written_on(stream);
        told.on_one_of(tensor.device(), stream.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_ready_on(
    tensor: Ref<'_, XdTensor>,
    stream: Ref<'_, XdStream>,
) -> Failure {
    fence_call("xd_tensor_ready_on", || {
        let (tensor, stream) = (borrow_tensor(tensor)?, borrow(stream)?);
        let told = tensor.ready_on(stream);
        told.on_one_of(tensor.device(), stream.device())
    })
}
