//! What keeps memory alive for the runtime and is Python's: given back on any thread, with the
//! interpreter's leave, and never after it, or the process around it, began to end.
#![expect(unsafe_code, reason = "gives references back from foreign threads")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_api::fence;
use pyo3::prelude::*;

use crate::interpreter::attached::{is_attached, is_finalizing};
use crate::interpreter::calls;
use crate::interpreter::gate::Inside;
use crate::link::table::api;
use crate::managed::capsule::with_error_aside;

static LEAKED: AtomicU64 = AtomicU64::new(0);

/// A reference to `object` as the word that [`release`] takes.
pub(crate) fn keep(object: Bound<'_, PyAny>) -> *mut c_void {
    object.into_ptr().cast()
}

/// Gives such a reference back. While the interpreter ends it is leaked and counted.
pub(crate) unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: attached; the reference is the one that `keep` took.
    let drop_one = || unsafe { calls::drop_reference(owner.cast()) };
    let _caught = fence(|| give_back(drop_one));
}

/// Runs what gives something of Python back, attached. While the interpreter ends it is not run, and
/// counted; nor while the process does, where a script may hold the lock to the end.
pub(crate) fn give_back(drop_one: impl FnOnce()) {
    let attached = || Python::try_attach(|_py| with_error_aside(drop_one));
    // Who is attached needs no leave: the interpreter ends on this thread, or not yet.
    let dropped = match is_attached() {
        true => attached(),
        false => enter().and_then(|_inside| attached()),
    };
    if dropped.is_none() {
        count_leak();
    }
}

/// The same for a tensor of others, whose deleter attaches itself where it needs to.
///
/// # Safety
/// - `deleter(tensor)` may be called once, here.
#[inline]
pub(crate) unsafe fn release_foreign(
    deleter: unsafe extern "C" fn(*mut c_void),
    tensor: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let delete = || unsafe { calls::delete(deleter, tensor) };
    match is_attached() {
        true => with_error_aside(delete),
        false => give_back(delete),
    }
}

/// Counts something that is not given back.
#[cold]
pub(crate) fn count_leak() {
    LEAKED.fetch_add(1, Ordering::Relaxed);
}

/// An object that is kept for its memory.
#[derive(Debug)]
pub(crate) struct Held(*mut c_void);

impl Held {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> Self {
        Self(keep(object.clone()))
    }
}

// SAFETY: a reference may be given back on any attached thread.
unsafe impl Send for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the reference of `new`; dropped attached, as its lender does.
        unsafe { calls::drop_reference(self.0.cast()) };
    }
}

fn enter() -> Option<Inside> {
    let inside = Inside::enter()?;
    let may_attach = !is_finalizing() && (api().exiting)() == 0;
    may_attach.then_some(inside)
}

/// How many objects were leaked because the process or the interpreter was ending, or is a fork.
#[pyfunction]
pub(crate) fn _counted_leaks() -> u64 {
    LEAKED.load(Ordering::Relaxed) + (api().counted_leaks)()
}
