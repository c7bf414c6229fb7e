//! Calls of code that may be Python's.
//!
//! `CPython` before 3.14 ends a thread that asks for the interpreter too late by unwinding it, and a
//! thread in Python code asks at any moment. Rust frames do not survive that: they would give
//! references back without the interpreter. So every such call goes through here, where the unwinding
//! ends, and the thread stays for ever: what `CPython` does itself from 3.14 on.
#![expect(unsafe_code, reason = "calls Python by functions that may unwind")]

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;

use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

unsafe extern "C-unwind" {
    #[link_name = "PyObject_Call"]
    fn call_object(
        callable: *mut ffi::PyObject,
        args: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
    #[link_name = "PyObject_GetAttr"]
    fn get_attribute(object: *mut ffi::PyObject, name: *mut ffi::PyObject) -> *mut ffi::PyObject;
    #[link_name = "PyImport_Import"]
    fn import(name: *mut ffi::PyObject) -> *mut ffi::PyObject;
    #[link_name = "Py_DecRef"]
    fn decrease(object: *mut ffi::PyObject);
    #[link_name = "PyObject_GetBuffer"]
    fn get_buffer(object: *mut ffi::PyObject, view: *mut ffi::Py_buffer, flags: c_int) -> c_int;
    #[link_name = "PyBuffer_Release"]
    fn release_buffer(view: *mut ffi::Py_buffer);
}

/// Dropped by nothing but an unwinding: the thread stays.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs one call of C that may unwind this thread: then it does not come back.
#[inline(always)]
pub(crate) fn staying<T>(call: impl FnOnce() -> T) -> T {
    let stay = Stay;
    let answer = call();
    let _came_back = ManuallyDrop::new(stay);
    answer
}

/// `callable(*args, **keywords)`.
///
/// # Errors
/// What it raises.
pub(crate) fn call<'py, A>(
    callable: &Bound<'py, PyAny>,
    args: A,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    A::Error: Into<PyErr>,
{
    let py = callable.py();
    let args = args.into_pyobject(py).map_err(Into::into)?;
    let keywords = keywords.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: three live objects, of which the last may be NULL.
    let answer = staying(|| unsafe { call_object(callable.as_ptr(), args.as_ptr(), keywords) });
    // SAFETY: a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, answer) }
}

/// `x.name`, which a class may compute.
///
/// # Errors
/// What it raises.
pub(crate) fn attribute<'py>(x: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::intern(x.py(), name);
    // SAFETY: two live objects.
    let answer = staying(|| unsafe { get_attribute(x.as_ptr(), name.as_ptr()) });
    // SAFETY: a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(x.py(), answer) }
}

/// `x.name`, or `None` where there is no such attribute.
///
/// # Errors
/// What it raises, other than `AttributeError`.
pub(crate) fn attribute_if_any<'py>(
    x: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match attribute(x, name) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyAttributeError>(x.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `x.name(**keywords)`.
///
/// # Errors
/// What it raises.
pub(crate) fn method<'py>(
    x: &Bound<'py, PyAny>,
    name: &str,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    call(&attribute(x, name)?, PyTuple::empty(x.py()), keywords)
}

/// A module, which is run where it is needed for the first time.
///
/// # Errors
/// What it raises.
pub(crate) fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::intern(py, name);
    // SAFETY: a live object.
    let answer = staying(|| unsafe { import(name.as_ptr()) });
    // SAFETY: a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, answer) }
}

/// `module.function(*args)`: how methods are made that are written in Python.
///
/// # Errors
/// What it raises.
pub(crate) fn function<'py, A>(
    py: Python<'py>,
    (of, name): (&str, &str),
    args: A,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    A::Error: Into<PyErr>,
{
    call(&attribute(&module(py, of)?, name)?, args, None)
}

/// Gives a reference back, which may end the object by code of its class.
///
/// # Safety
/// - The thread is attached, and owns the reference.
pub(crate) unsafe fn drop_reference(object: *mut ffi::PyObject) {
    // SAFETY: the caller's promise.
    staying(|| unsafe { decrease(object) });
}

/// Calls the deleter of a tensor of others.
///
/// # Safety
/// - `deleter(tensor)` may be called once, here.
#[inline]
pub(crate) unsafe fn delete(deleter: unsafe extern "C" fn(*mut c_void), tensor: *mut c_void) {
    type Deleter = unsafe extern "C-unwind" fn(*mut c_void);
    // SAFETY: a function is called alike by both conventions; this one says that it may not come back.
    let deleter = unsafe { (&raw const deleter).cast::<Deleter>().read() };
    // SAFETY: the caller's promise.
    staying(|| unsafe { deleter(tensor) });
}

/// The view of an object that has the buffer protocol; -1 with an exception where it has none such.
///
/// # Safety
/// - A live object, on a thread that is attached, and a place for the view.
pub(crate) unsafe fn view(
    object: *mut ffi::PyObject,
    place: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    staying(|| unsafe { get_buffer(object, place, flags) })
}

/// Gives a view back.
///
/// # Safety
/// - A view of [`view`], given back once, on a thread that is attached.
pub(crate) unsafe fn release_view(view: *mut ffi::Py_buffer) {
    // SAFETY: the caller's promise.
    staying(|| unsafe { release_buffer(view) });
}
