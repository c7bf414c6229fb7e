//! How deep producers may ask for tensors of other producers.
//!
//! Each level takes more of a thread's stack than Python's own limit on calls reckons with, so a
//! producer that asks for itself would run out of stack before it runs out of calls.

use std::cell::Cell;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// Nobody wraps tensors in so many producers; a thread of 1 MiB has room for it.
const DEEPEST: u32 = 32;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// One level, until it is dropped.
pub(crate) struct RecursionGuard(());

impl RecursionGuard {
    /// # Errors
    /// `RecursionError` below the deepest level.
    pub(crate) fn enter() -> PyResult<Self> {
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            return Err(PyRecursionError::new_err(format!(
                "{DEEPEST} producers ask for each other's tensors; does one ask for its own?"
            )));
        }
        DEPTH.set(depth + 1);
        Ok(Self(()))
    }
}

impl Drop for RecursionGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}
