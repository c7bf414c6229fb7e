//! The gate before Python, for threads that are not attached and have something to give back.
//!
//! Whether the interpreter lives and the attach cannot be one step before 3.14, which would end a
//! thread that comes too late by unwinding it. So threads are counted from the question to the end of
//! what they do there, and the interpreter's end waits for them.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::interpreter::ended_threads;

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

/// Called as the interpreter begins to end: nobody comes in any more, and those inside may take the lock to leave.
pub(crate) fn close(py: Python<'_>) -> PyResult<()> {
    CLOSED_HERE.set(true);
    STATE.fetch_or(CLOSED, Ordering::SeqCst);
    detached(py, || {
        let turn = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
        let somebody = |_: &mut ()| STATE.load(Ordering::SeqCst) != CLOSED;
        drop(LEFT.wait_timeout_while(turn, PATIENCE, somebody));
    });
    ended_threads::keep(py)
}

/// Called in the child of a fork, which has no other thread.
pub(crate) fn in_child() {
    STATE.fetch_and(CLOSED, Ordering::SeqCst);
}
