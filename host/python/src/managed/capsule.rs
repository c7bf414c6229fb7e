//! DLPack capsules: how a managed tensor travels through Python.
//!
//! A capsule owns its tensor until somebody renames it. Its names are static, as DLPack asks. Some
//! consumers that fail run the deleter and leave the name (`PyTorch`, for devices that it does not know):
//! so a capsule has the serial number that its tensor had.
#![expect(
    unsafe_code,
    reason = "capsules are made and read by C functions of Python"
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use crossdock_api::{DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, fence, serial_of};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::interpreter::attached::is_attached;
use crate::managed::incoming::{Incoming, Kind};

/// A deleter of either struct.
pub(crate) type Deleter = unsafe extern "C" fn(tensor: *mut c_void);

/// A managed tensor that can travel in a capsule.
pub(crate) trait CapsuleKind: Sized + 'static {
    /// The name of a capsule that still owns its tensor.
    const NAME: &'static CStr;
    /// The name of one whose tensor was taken.
    const USED: &'static CStr;

    /// The deleter, where there is one, and what it takes.
    ///
    /// # Safety
    /// - `tensor` is live.
    unsafe fn deleter(tensor: NonNull<Self>) -> (Option<Deleter>, *mut c_void);

    /// Runs the deleter, where there is one.
    ///
    /// # Safety
    /// - `tensor` is live, and nobody uses it afterwards.
    unsafe fn delete(tensor: NonNull<Self>) {
        // SAFETY: the caller's promise.
        if let (Some(deleter), tensor) = unsafe { Self::deleter(tensor) } {
            // SAFETY: the caller's promise: this is the only release.
            unsafe { deleter(tensor) };
        }
    }
}

macro_rules! capsule_kind {
    ($struct:ident, $name:literal, $used:literal) => {
        impl CapsuleKind for $struct {
            const NAME: &'static CStr = $name;
            const USED: &'static CStr = $used;

            unsafe fn deleter(tensor: NonNull<Self>) -> (Option<Deleter>, *mut c_void) {
                // SAFETY: the caller's promise: a live struct.
                let place = unsafe { &raw const (*tensor.as_ptr()).deleter };
                // SAFETY: as above, though nobody said that it is aligned; functions that differ in
                // what their pointer points to are called alike.
                let deleter = unsafe { place.cast::<Option<Deleter>>().read_unaligned() };
                (deleter, tensor.as_ptr().cast())
            }
        }
    };
}

capsule_kind!(
    DLManagedTensorVersioned,
    c"dltensor_versioned",
    c"used_dltensor_versioned"
);
capsule_kind!(DLManagedTensor, c"dltensor", c"used_dltensor");

/// The struct of DLPack 1.x as the draft of the Python protocol let it travel: under the old name.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Draft(DLManagedTensorVersioned);

impl CapsuleKind for Draft {
    const NAME: &'static CStr = DLManagedTensor::NAME;
    const USED: &'static CStr = DLManagedTensor::USED;

    unsafe fn deleter(tensor: NonNull<Self>) -> (Option<Deleter>, *mut c_void) {
        // SAFETY: the caller's promise, passed on.
        unsafe { DLManagedTensorVersioned::deleter(tensor.cast()) }
    }
}

/// The major version whose layout is known here.
pub(crate) const MAJOR: u32 = 1;

/// A capsule that owns `tensor` until somebody takes it.
///
/// # Safety
/// - `tensor` is a live export of the runtime, and the caller owns it and gives it up, whatever the result.
pub(crate) unsafe fn wrap<T: CapsuleKind>(
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
    // SAFETY: an export of the runtime.
    let serial = context_of(unsafe { serial_of(tensor) });
    // SAFETY: a capsule, which keeps the word as it is.
    unsafe { ffi::PyCapsule_SetContext(capsule, serial) };
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

/// How a capsule's tensor is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By the capsule's name.
    Today,
    /// A version from 100 on was asked for in the words of the draft, which calls both `dltensor`.
    DraftVersioned,
}

/// Takes the tensor out of a capsule of either kind, which is renamed at once; `None` where it is
/// something else.
///
/// # Errors
/// `BufferError` for one whose tensor was taken before, and for a draft's of an unknown version.
pub(crate) fn take(object: &Bound<'_, PyAny>, asked: Asked) -> PyResult<Option<Incoming>> {
    let capsule = object.as_ptr();
    // SAFETY: any object may be asked.
    if unsafe { ffi::PyCapsule_CheckExact(capsule) } == 0 {
        return Ok(None);
    }
    // SAFETY: a capsule.
    let name = unsafe { ffi::PyCapsule_GetName(capsule) };
    if name.is_null() {
        return Err(PyErr::take(object.py()).unwrap_or_else(|| no_dlpack("without a name")));
    }
    // SAFETY: a capsule's name is a text.
    if unsafe { is_name::<DLManagedTensorVersioned>(name) } {
        return Ok(Some(Incoming(Kind::Versioned(rename(object)?))));
    }
    // SAFETY: as above.
    if unsafe { is_name::<DLManagedTensor>(name) } {
        return take_plain(object, asked).map(Some);
    }
    // SAFETY: a capsule's name lives as long as the capsule.
    Err(no_tensor(unsafe { CStr::from_ptr(name) }))
}

#[cold]
fn no_tensor(name: &CStr) -> PyErr {
    if name == DLManagedTensor::USED || name == DLManagedTensorVersioned::USED {
        return PyBufferError::new_err("the capsule's tensor was taken before; export it again");
    }
    no_dlpack(&format!("named {name:?}"))
}

fn no_dlpack(what: &str) -> PyErr {
    PyBufferError::new_err(format!("a capsule {what} holds no DLPack tensor"))
}

/// Whether the capsule is one of ours with the struct of the draft, which the name does not tell.
fn is_own_draft(capsule: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a capsule.
    let destructor = unsafe { ffi::PyCapsule_GetDestructor(capsule.as_ptr()) };
    let own: unsafe extern "C" fn(*mut ffi::PyObject) = drop_unused::<Draft>;
    destructor.is_some_and(|destructor| std::ptr::fn_addr_eq(destructor, own))
}

fn take_plain(object: &Bound<'_, PyAny>, asked: Asked) -> PyResult<Incoming> {
    if asked == Asked::Today && !is_own_draft(object) {
        return Ok(Incoming(Kind::Legacy(rename::<DLManagedTensor>(object)?)));
    }
    // SAFETY: a capsule of this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(object.as_ptr(), Draft::NAME.as_ptr()) };
    // SAFETY: every struct that the draft can put there is longer than a version.
    let version = unsafe { pointer.cast::<DLPackVersion>().read_unaligned() };
    if version.major != MAJOR {
        return Err(PyBufferError::new_err(
            "the producer was asked for version 100 or later and gave a struct of another one",
        ));
    }
    let draft = rename::<Draft>(object)?;
    Ok(Incoming(Kind::Versioned(draft.cast())))
}

/// Reads the pointer and renames the capsule, before anything that can fail.
fn rename<T: CapsuleKind>(capsule: &Bound<'_, PyAny>) -> PyResult<NonNull<T>> {
    let object = capsule.as_ptr();
    // SAFETY: a capsule with this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(object, T::NAME.as_ptr()) };
    // SAFETY: a capsule, and a static name.
    let renamed = unsafe { ffi::PyCapsule_SetName(object, T::USED.as_ptr()) };
    match NonNull::new(pointer.cast()) {
        Some(tensor) if renamed == 0 => Ok(tensor),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// A serial number as the word that a capsule keeps.
fn context_of(serial: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(usize::try_from(serial).unwrap_or(usize::MAX))
}

/// Called by Python when a capsule dies: releases a tensor that nobody took.
unsafe extern "C" fn drop_unused<T: CapsuleKind>(capsule: *mut ffi::PyObject) {
    let release = || {
        // SAFETY: called by Python with a capsule of `wrap`.
        let name = unsafe { ffi::PyCapsule_GetName(capsule) };
        // SAFETY: its name is ours, or what a consumer gave it, which lives as long as the capsule.
        if !unsafe { is_name::<T>(name) } {
            return;
        }
        // SAFETY: a capsule with this name.
        let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, name) };
        // SAFETY: as above.
        let serial = unsafe { ffi::PyCapsule_GetContext(capsule) };
        // SAFETY: `wrap` put an export of the runtime in, which may be released, and a consumer renames.
        let is_there = |tensor: &NonNull<T>| context_of(unsafe { serial_of(*tensor) }) == serial;
        if let Some(tensor) = NonNull::new(pointer.cast()).filter(is_there) {
            // SAFETY: the capsule owns it, and dies.
            let delete = || unsafe { T::delete(tensor) };
            // SAFETY: Python calls destructors on threads that are attached.
            unsafe { with_error_aside_attached(delete) };
        }
    };
    let _caught = fence(release);
}

/// Whether a capsule of this name still owns its tensor.
///
/// # Safety
/// - `name` is NULL or a text.
unsafe fn is_name<T: CapsuleKind>(name: *const c_char) -> bool {
    let ours = T::NAME.as_ptr();
    // SAFETY: two texts, by the caller's promise.
    name == ours || (!name.is_null() && unsafe { libc::strcmp(name, ours) } == 0)
}

/// Puts an exception in flight aside while a deleter runs, because that may run Python. A thread
/// that is not attached has none.
pub(crate) fn with_error_aside(run: impl FnOnce()) {
    if is_attached() {
        // SAFETY: as was just asked.
        unsafe { with_error_aside_attached(run) };
    } else {
        run();
    }
}

/// The same on a thread that is known to be attached.
///
/// # Safety
/// - The thread is attached to the interpreter.
unsafe fn with_error_aside_attached(run: impl FnOnce()) {
    // SAFETY: the caller's promise.
    if unsafe { ffi::PyErr_Occurred() }.is_null() {
        return run();
    }
    let mut error = std::ptr::null_mut();
    let (mut value, mut trace) = (error, error);
    // SAFETY: three places of ours, and attached.
    unsafe { ffi::PyErr_Fetch(&raw mut error, &raw mut value, &raw mut trace) };
    run();
    // SAFETY: what was put aside.
    unsafe { ffi::PyErr_Restore(error, value, trace) };
}
