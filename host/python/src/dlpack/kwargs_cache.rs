//! Calls that were looked at once: consumers ask with constants of their code, so that the same
//! objects come again and again. Without this, `np.from_dlpack` of a tensor here takes 24 % more
//! instructions of ours, and `__dlpack__` by itself 17 % (`scripts/bench counts`).
#![expect(unsafe_code, reason = "keeps references for ever, and reads arguments")]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

/// The keywords and the last keyword's value of a call whose other values are `None`.
///
/// Both objects are kept for ever, so that no other ever has their address.
struct KnownCall {
    /// How many keywords there are, once they are known.
    count: AtomicUsize,
    names: AtomicPtr<ffi::PyObject>,
    value: AtomicPtr<ffi::PyObject>,
}

/// The calls of so many consumers are remembered.
static CALLS: [KnownCall; 4] = [const { KnownCall::new() }; 4];

impl KnownCall {
    const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            names: AtomicPtr::new(null_mut()),
            value: AtomicPtr::new(null_mut()),
        }
    }

    /// # Safety
    /// - As [`is_known`], of a call without positions.
    #[inline]
    unsafe fn is(&self, args: *const *mut ffi::PyObject, names: *mut ffi::PyObject) -> bool {
        // The count is written before the names.
        if self.names.load(Ordering::Acquire) != names {
            return false;
        }
        let count = self.count.load(Ordering::Relaxed);
        // SAFETY: these names are so many, and as many values are passed.
        let values = unsafe { std::slice::from_raw_parts(args, count) };
        let Some((last, others)) = values.split_last() else {
            return false;
        };
        // SAFETY: an object that always lives.
        let none = unsafe { ffi::Py_None() };
        *last == self.value.load(Ordering::Relaxed) && others.iter().all(|value| *value == none)
    }

    /// Takes the place if it is free.
    fn take(&self, (names, count): (&Bound<'_, PyAny>, usize), value: &Bound<'_, PyAny>) -> bool {
        let order = Ordering::Relaxed;
        if self.count.compare_exchange(0, count, order, order).is_err() {
            return false;
        }
        self.value.store(value.clone().into_ptr(), order);
        self.names
            .store(names.clone().into_ptr(), Ordering::Release);
        true
    }
}

/// Whether a call is one that [`remember`] was told.
///
/// # Safety
/// - They are what Python passes to a `METH_FASTCALL | METH_KEYWORDS` function, during its call.
#[inline]
pub(crate) unsafe fn is_known(
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> bool {
    // SAFETY: the caller's promise, and there are no positions.
    let is = |call: &KnownCall| unsafe { call.is(args, names) };
    nargs == 0 && !names.is_null() && CALLS.iter().any(is)
}

/// Remembers keywords and the last one's value, which never change, while there is room.
/// A value is remembered once: some consumers make new keywords for each call.
pub(crate) fn remember(names: (&Bound<'_, PyAny>, usize), value: &Bound<'_, PyAny>) {
    let known = |call: &KnownCall| call.value.load(Ordering::Relaxed) == value.as_ptr();
    if !CALLS.iter().any(known) {
        let _remembered = CALLS.iter().any(|call| call.take(names, value));
    }
}
