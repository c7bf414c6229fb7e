//! The library itself: its versions, and the state of the process.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::ffi::CStr;

use crossdock_api::{API_MAJOR, API_MINOR, Failure, ReleaseGate, Text};

use crate::crossing::boundary::{fence_call, fence_value};
use crate::crossing::failure::Refusal;

/// The version of this library with a NUL at its end.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_abi_version() -> u32 {
    fence_value(|| Some(API_MAJOR << 16 | API_MINOR))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_version() -> Text<'static> {
    fence_value(|| Some(Text::new(VERSION)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_exiting() -> i32 {
    fence_value(|| Some(crossdock::exiting().into()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_counted_leaks() -> u64 {
    fence_value(|| Some(crossdock::counted_leaks()))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_release_through(gate: ReleaseGate) -> Failure {
    fence_call("xd_release_through", || {
        let gate = gate.ok_or_else(|| Refusal::null("gate"))?;
        // SAFETY: the caller promises a function that any thread may call until the process ends.
        let is_set = unsafe { crossdock::release_through(gate) };
        is_set.then_some(()).ok_or(Refusal::SecondGate)
    })
}
