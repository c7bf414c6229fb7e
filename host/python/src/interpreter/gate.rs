//! The gate before Python, for threads that are not attached and have something to give back.
//!
//! Whether the interpreter lives and the attach cannot be one step before 3.14, which would end a
//! thread that comes too late by unwinding it. So threads are counted from the question to the end of
//! what they do there, and the interpreter's end waits for them.
#![expect(unsafe_code, reason = "is called by C, and watches for forks")]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crossdock_api::fence;
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::interpreter::ended_threads;
use crate::link::table::api;
use crate::managed::py_owner;
use crate::runtime;

/// How many threads are inside, and [`CLOSED`].
static STATE: AtomicUsize = AtomicUsize::new(0);
const CLOSED: usize = 1 << (usize::BITS - 1);

/// How long the interpreter's end waits for those inside.
const PATIENCE: Duration = Duration::from_secs(2);

static LEFT: Condvar = Condvar::new();
static LEAVING: Mutex<()> = Mutex::new(());

/// The right to attach, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// `None` once the interpreter began to end.
    pub(crate) fn enter() -> Option<Self> {
        let before = STATE.fetch_add(1, Ordering::SeqCst);
        let inside = Self(());
        (before & CLOSED == 0).then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if STATE.fetch_sub(1, Ordering::SeqCst) == CLOSED + 1 {
            // Taken, so that this does not fall between the question and the wait of `close`.
            let _turn = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
            LEFT.notify_all();
        }
    }
}

thread_local! {
    /// Whether the interpreter ends on this thread.
    static CLOSED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the interpreter began to end, or soon will.
#[inline]
pub(crate) fn is_closed() -> bool {
    STATE.load(Ordering::Relaxed) & CLOSED != 0
}

/// Whether that is so by this thread.
pub(crate) fn is_closed_here() -> bool {
    CLOSED_HERE.get()
}

/// Called by `atexit`: nobody comes in any more, and those inside may take the lock to leave.
#[pyfunction]
fn _close_gate(py: Python<'_>) -> PyResult<()> {
    CLOSED_HERE.set(true);
    STATE.fetch_or(CLOSED, Ordering::SeqCst);
    detached(py, || {
        let turn = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
        let somebody = |_: &mut ()| STATE.load(Ordering::SeqCst) != CLOSED;
        drop(LEFT.wait_timeout_while(turn, PATIENCE, somebody));
    });
    ended_threads::keep(py)
}

/// The child of a fork has no other thread, and opens a runtime of its own.
unsafe extern "C" fn in_child() {
    let _caught = fence(|| {
        STATE.fetch_and(CLOSED, Ordering::SeqCst);
        runtime::forget();
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

/// Puts the gate in its place.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let close = wrap_pyfunction!(_close_gate, module)?;
    py.import("atexit")?.call_method1("register", (close,))?;
    // SAFETY: a static function that takes nothing and only writes a number and a pointer.
    let _noticed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: a static function that every thread may call, in a module that is never unloaded.
    crate::link::error::check(unsafe { (api().release_through)(Some(release_foreign)) })?;
    Ok(())
}
