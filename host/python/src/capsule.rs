//! DLPack capsules: how a managed tensor travels through Python.
//!
//! A capsule owns its tensor until somebody renames it. Its names are static, as DLPack asks.
#![expect(
    unsafe_code,
    reason = "capsules are made and read by C functions of Python"
)]

use std::ffi::CStr;
use std::ptr::NonNull;

use crossdock_api::{DLManagedTensor, DLManagedTensorVersioned, fence};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A managed tensor that can travel in a capsule.
pub(crate) trait Traveller: Sized + 'static {
    /// The name of a capsule that still owns its tensor.
    const NAME: &'static CStr;
    /// The name of one whose tensor was taken.
    const USED: &'static CStr;

    /// Runs the deleter, where there is one.
    ///
    /// # Safety
    /// - `tensor` is live, and nobody uses it afterwards.
    unsafe fn delete(tensor: NonNull<Self>);
}

macro_rules! traveller {
    ($struct:ident, $name:literal, $used:literal) => {
        impl Traveller for $struct {
            const NAME: &'static CStr = $name;
            const USED: &'static CStr = $used;

            unsafe fn delete(tensor: NonNull<Self>) {
                // SAFETY: the caller's promise: a live struct.
                let deleter = unsafe { (*tensor.as_ptr()).deleter };
                if let Some(deleter) = deleter {
                    // SAFETY: the caller's promise: this is the only release.
                    unsafe { deleter(tensor.as_ptr()) };
                }
            }
        }
    };
}

traveller!(
    DLManagedTensorVersioned,
    c"dltensor_versioned",
    c"used_dltensor_versioned"
);
traveller!(DLManagedTensor, c"dltensor", c"used_dltensor");

/// A capsule that owns `tensor` until somebody takes it.
///
/// # Safety
/// - `tensor` is live, and the caller owns it and gives it up, whatever the result.
pub(crate) unsafe fn wrap<T: Traveller>(
    py: Python<'_>,
    tensor: NonNull<T>,
) -> PyResult<Bound<'_, PyAny>> {
    let pointer = tensor.as_ptr().cast();
    // SAFETY: not NULL, a static name, and a destructor that fits it.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, T::NAME.as_ptr(), Some(drop_unused::<T>)) };
    if capsule.is_null() {
        // SAFETY: still ours.
        unsafe { T::delete(tensor) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

/// Takes the tensor out of a capsule, which is renamed at once; `None` where it is another capsule.
///
/// # Errors
/// `BufferError` for one whose tensor was taken before.
pub(crate) fn take<T: Traveller>(capsule: &Bound<'_, PyAny>) -> PyResult<Option<NonNull<T>>> {
    let object = capsule.as_ptr();
    // SAFETY: any object may be asked, and both names are static.
    if unsafe { ffi::PyCapsule_IsValid(object, T::USED.as_ptr()) } != 0 {
        return Err(PyBufferError::new_err(
            "the capsule's tensor was taken before; export it again",
        ));
    }
    // SAFETY: as above.
    if unsafe { ffi::PyCapsule_IsValid(object, T::NAME.as_ptr()) } == 0 {
        return Ok(None);
    }
    // SAFETY: a capsule with this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(object, T::NAME.as_ptr()) };
    // SAFETY: a capsule, and a static name.
    let renamed = unsafe { ffi::PyCapsule_SetName(object, T::USED.as_ptr()) };
    match NonNull::new(pointer.cast()) {
        Some(tensor) if renamed == 0 => Ok(Some(tensor)),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// Called by Python when a capsule dies: releases a tensor that nobody took.
unsafe extern "C" fn drop_unused<T: Traveller>(capsule: *mut ffi::PyObject) {
    let release = || {
        // SAFETY: called by Python with a capsule of `wrap`.
        if unsafe { ffi::PyCapsule_IsValid(capsule, T::NAME.as_ptr()) } == 0 {
            return;
        }
        // SAFETY: a capsule with this name.
        let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr()) };
        if let Some(tensor) = NonNull::new(pointer.cast()) {
            // SAFETY: the capsule owns it, and dies.
            let delete = || unsafe { T::delete(tensor) };
            // SAFETY: Python calls destructors on threads that are attached.
            unsafe { with_error_aside(delete) };
        }
    };
    let _caught = fence(release);
}

/// Puts an exception in flight aside while a deleter runs, because that may run Python.
///
/// # Safety
/// - The thread is attached to the interpreter.
unsafe fn with_error_aside(run: impl FnOnce()) {
    let mut error = std::ptr::null_mut();
    let (mut value, mut trace) = (error, error);
    // SAFETY: three places of ours.
    unsafe { ffi::PyErr_Fetch(&raw mut error, &raw mut value, &raw mut trace) };
    run();
    // SAFETY: what was put aside.
    unsafe { ffi::PyErr_Restore(error, value, trace) };
}
