//! `xd_pointer_query`: who owns an address.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock_api::{Failure, Out, Owned, PointerInfo, Ref, XdDevice, XdRuntime};

use crate::crossing::boundary::{fence_call, optional, required};
use crate::crossing::object::{borrow, give};

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_pointer_query(
    runtime: Ref<'_, XdRuntime>,
    address: u64,
    out: Out<'_, PointerInfo>,
    device: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_call("xd_pointer_query", || {
        let (out, out_device) = (required(out)?, optional(device));
        let answer = borrow(runtime)?.pointer_query(address)?;
        if out_device.is_wanted() {
            out_device.put(answer.device.map_or(Owned::NULL, give));
        }
        out.put(answer.info);
        Ok(())
    })
}
