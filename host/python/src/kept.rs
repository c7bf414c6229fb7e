//! Python objects that keep memory alive for the runtime: dropped on any thread, with the
//! interpreter's leave, and never after it, or the process around it, began to end.
#![expect(unsafe_code, reason = "gives references back from foreign threads")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_api::fence;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::capsule::with_error_aside;
use crate::interpreter::{is_attached, is_finalizing};
use crate::table::api;

static LEAKED: AtomicU64 = AtomicU64::new(0);

/// A reference to `object` as the word that [`release`] takes.
pub(crate) fn keep(object: Bound<'_, PyAny>) -> *mut c_void {
    object.into_ptr().cast()
}

/// Gives such a reference back. While the interpreter ends it is leaked and counted.
pub(crate) unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: attached; the reference is the one that `keep` took.
    let drop_one = || unsafe { ffi::Py_DecRef(owner.cast()) };
    let _caught = fence(|| give_back(drop_one));
}

/// Runs what gives something of Python back, attached. While the interpreter ends it is not run, and
/// counted; nor while the process does, where a script may hold the lock to the end.
pub(crate) fn give_back(drop_one: impl FnOnce()) {
    let may_attach = is_attached() || (!is_finalizing() && (api().exiting)() == 0);
    let dropped = may_attach.then(|| Python::try_attach(|_py| with_error_aside(drop_one)));
    if dropped.flatten().is_none() {
        LEAKED.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many objects were leaked because the process or the interpreter was ending.
#[pyfunction]
pub(crate) fn _counted_leaks() -> u64 {
    LEAKED.load(Ordering::Relaxed) + (api().counted_leaks)()
}
