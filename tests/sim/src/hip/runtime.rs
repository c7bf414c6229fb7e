//! The runtime itself: start and version. It starts by itself at the first call that needs a device.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::c_int;

use super::entry::{Answer, Call, Out, entries};
use crate::face::codes::Code;

entries! {
    fn hipInit(flags: u32) |_call| {
        if flags == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

entries! {
    before_init
    fn hipRuntimeGetVersion(version: Out<c_int>) |call| {
        tell(call, version)
    }

    fn hipDriverGetVersion(version: Out<c_int>) |call| {
        tell(call, version)
    }
}

/// `70_012_345` is 7.0.12345.
fn tell(call: &Call, version: Out<c_int>) -> Answer {
    let (major, minor) = call.process.hip;
    let number = major.checked_mul(10_000_000);
    let number = number.and_then(|number| number.checked_add(minor.checked_mul(100_000)?));
    version.set(number.ok_or(Code::UNKNOWN)?)
}
