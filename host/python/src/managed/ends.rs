//! What is done when the interpreter ends and in the child of a fork, and how tensors of others are released.
#![expect(unsafe_code, reason = "is called by C, and watches for forks")]

use std::ffi::c_void;

use crossdock_api::fence;
use pyo3::prelude::*;

use crate::interpreter::gate;
use crate::link::error::check;
use crate::link::process_runtime;
use crate::link::table::api;
use crate::managed::py_owner;

/// Called by `atexit`.
#[pyfunction]
fn _close_gate(py: Python<'_>) -> PyResult<()> {
    gate::close(py)
}

/// The child of a fork opens a runtime of its own.
unsafe extern "C" fn in_child() {
    let _caught = fence(|| {
        gate::in_child();
        process_runtime::forget();
    });
}

/// How the runtime releases tensors of others, whose deleters may be Python's.
unsafe extern "C" fn release_foreign(
    deleter: unsafe extern "C" fn(*mut c_void),
    tensor: *mut c_void,
) {
    // SAFETY: the runtime gives a tensor that it owns, and gives it up.
    let _caught = fence(|| unsafe { py_owner::release_foreign(deleter, tensor) });
}

/// Has all of these called.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let close = wrap_pyfunction!(_close_gate, module)?;
    py.import("atexit")?.call_method1("register", (close,))?;
    // SAFETY: a static function that takes nothing and only writes a number and a pointer.
    let _noticed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: a static function that every thread may call, in a module that is never unloaded.
    check(unsafe { (api().release_through)(Some(release_foreign)) })?;
    Ok(())
}
