//! `xd_registration`: host memory that is locked for a device.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock_api::{Failure, Out, Owned, Ref, XdDevice, XdRegistration, XdTensor};

use crate::crossing::boundary::{fence_free, fence_into};
use crate::crossing::failure::On as _;
use crate::crossing::object::{Handle, borrow, borrow_tensor, give};

impl Handle for XdRegistration {
    type Object = crossdock::Registration;
    const NAME: &'static str = "registration";
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_register(
    tensor: Ref<'_, XdTensor>,
    device: Ref<'_, XdDevice>,
    out: Out<'_, Owned<XdRegistration>>,
) -> Failure {
    fence_into("xd_tensor_register", out, || {
        let (tensor, device) = (borrow_tensor(tensor)?, borrow(device)?);
        Ok(give(tensor.register(device).on(device)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_registration_free(registration: Owned<XdRegistration>) {
    fence_free(registration);
}
