//! Whether this thread may talk to Python now: by two questions that the limited interface leaves out
//! and every `CPython` exports, and one that it has.
#![expect(unsafe_code, reason = "asks Python by its C functions")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use libloading::os::unix::Library;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::interpreter::gate;

type Ask = unsafe extern "C" fn() -> c_int;
type GetState = unsafe extern "C" fn() -> *mut c_void;

/// Whether this thread is attached to the interpreter.
pub(crate) fn is_attached() -> bool {
    static ASK: OnceLock<Option<Ask>> = OnceLock::new();
    let ask = ASK.get_or_init(|| first_of(&[c"PyGILState_Check"]));
    // SAFETY: every thread may ask, at any time.
    let says_so = ask.is_some_and(|ask| unsafe { ask() } != 0);
    says_so && (!gate::is_closed() || is_attached_at_the_end())
}

/// The same where that question may be answered with 1 on every thread: `CPython` does so once its
/// table of threads is gone.
#[cold]
fn is_attached_at_the_end() -> bool {
    static ASK: OnceLock<Option<GetState>> = OnceLock::new();
    // Public since 3.13; the other name was exported before.
    let names = [
        c"PyThreadState_GetUnchecked",
        c"_PyThreadState_UncheckedGet",
    ];
    let ask = ASK.get_or_init(|| first_of(&names));
    // SAFETY: every thread may ask, at any time.
    let has_state = ask.is_some_and(|ask| !unsafe { ask() }.is_null());
    has_state && (!is_finalizing() || gate::is_closed_here())
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

/// Refuses an interpreter within the interpreter: the classes belong to the first one, and a thread
/// that attaches as Python's C API has it attaches to that one, which may wait for itself.
///
/// # Errors
/// `ImportError` with what to do.
pub(crate) fn refuse_inner() -> PyResult<()> {
    // SAFETY: the caller is attached.
    let interpreter = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: the interpreter of this thread.
    if unsafe { ffi::PyInterpreterState_GetID(interpreter) } == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "crossdock does not work in subinterpreters: import it in the main interpreter, or use a \
         process of its own",
    ))
}

/// Runs what may block without the interpreter. Where that began to end meanwhile, the thread stays
/// here: `CPython` before 3.14 would end it by unwinding, which no Rust frame survives.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    // Who is attached while it ends is the thread that ends it, and comes back.
    let is_ending_it = is_finalizing();
    py.detach(|| {
        let done = work();
        while !is_ending_it && is_finalizing() {
            std::thread::park();
        }
        done
    })
}

/// The function by one of these names, whose type `F` must be.
fn first_of<F: Copy>(names: &[&CStr]) -> Option<F> {
    let process = Library::this();
    names.iter().find_map(|name| {
        // SAFETY: the functions that are asked for here are of the types that they are asked for as.
        let found = unsafe { process.get::<F>(name.to_bytes_with_nul()) };
        found.ok().map(|function| *function)
    })
}
