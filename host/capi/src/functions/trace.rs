//! `xd_trace_start` and `xd_trace_stop`: what hooks, copies and routes did, and when.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock_api::{Failure, Text};

use crate::crossing::boundary::fence_call;
use crate::crossing::input;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_trace_start(path: Text<'_>) -> Failure {
    fence_call("xd_trace_start", || {
        Ok(crossdock::trace::start(input::text(path, "path")?)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_trace_stop() -> Failure {
    fence_call("xd_trace_stop", || Ok(crossdock::trace::stop()?))
}
