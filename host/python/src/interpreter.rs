//! Whether this thread may talk to Python now: two questions that the limited interface leaves out
//! and every `CPython` exports.
#![expect(unsafe_code, reason = "looks functions up by name")]

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use libloading::os::unix::Library;
use pyo3::ffi;

type Ask = unsafe extern "C" fn() -> c_int;

/// Whether this thread is attached to the interpreter.
pub(crate) fn is_attached() -> bool {
    static ASK: OnceLock<Option<Ask>> = OnceLock::new();
    let ask = ASK.get_or_init(|| first_of(&[c"PyGILState_Check"]));
    // SAFETY: every thread may ask, at any time.
    ask.is_some_and(|ask| unsafe { ask() } != 0)
}

/// Whether the interpreter began to end: a thread that attaches then never comes back.
pub(crate) fn is_finalizing() -> bool {
    static ASK: OnceLock<Option<Ask>> = OnceLock::new();
    // Public since 3.13; the other name was exported before.
    let ask = ASK.get_or_init(|| first_of(&[c"Py_IsFinalizing", c"_Py_IsFinalizing"]));
    // SAFETY: needs no interpreter.
    let has_ended = unsafe { ffi::Py_IsInitialized() } == 0;
    // SAFETY: as above.
    has_ended || ask.is_some_and(|ask| unsafe { ask() } != 0)
}

/// The function by one of these names, whose type [`Ask`] must be.
fn first_of(names: &[&CStr]) -> Option<Ask> {
    let process = Library::this();
    names.iter().find_map(|name| {
        // SAFETY: the functions that are asked for here take nothing and return an int.
        let found = unsafe { process.get::<Ask>(name.to_bytes_with_nul()) };
        found.ok().map(|function| *function)
    })
}
