//! Calls of Python methods without a tuple, a dict or a new text: what the hot paths need.
#![expect(unsafe_code, reason = "calls functions of Python's C interface")]

use std::sync::OnceLock;

use libloading::os::unix::Library;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::dlpack::negotiate::HOST;
use crate::interpreter::calls::staying;

/// The version that is spoken here.
pub(crate) const VERSION: (u32, u32) = (1, 3);

type VectorcallMethod = unsafe extern "C-unwind" fn(
    name: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Objects that live as long as the process.
#[derive(Debug)]
pub(crate) struct Names {
    call: VectorcallMethod,
    pub(crate) dlpack: Py<PyString>,
    pub(crate) dlpack_device: Py<PyString>,
    pub(crate) is_conj: Py<PyString>,
    pub(crate) is_neg: Py<PyString>,
    pub(crate) max_version_name: Py<PyString>,
    /// The keywords beside it, which consumers often give as `None`.
    pub(crate) others: [Py<PyString>; 3],
    /// The keyword `max_version` alone.
    pub(crate) max_version: Py<PyTuple>,
    /// [`VERSION`] as its value.
    pub(crate) version: Py<PyTuple>,
    /// [`HOST`], which most tensors answer with.
    pub(crate) host: Py<PyTuple>,
}

static NAMES: OnceLock<Names> = OnceLock::new();

/// The names, which the module's import made.
///
/// # Errors
/// `ImportError` where a Python does not export what every `CPython` since 3.9 does.
#[inline]
pub(crate) fn names(py: Python<'_>) -> PyResult<&'static Names> {
    match NAMES.get() {
        Some(names) => Ok(names),
        None => make(py),
    }
}

#[cold]
fn make(py: Python<'_>) -> PyResult<&'static Names> {
    let max_version = PyString::intern(py, "max_version");
    let made = Names {
        call: vectorcall_method()?,
        dlpack: PyString::intern(py, "__dlpack__").unbind(),
        dlpack_device: PyString::intern(py, "__dlpack_device__").unbind(),
        is_conj: PyString::intern(py, "is_conj").unbind(),
        is_neg: PyString::intern(py, "is_neg").unbind(),
        max_version: PyTuple::new(py, [&max_version])?.unbind(),
        max_version_name: max_version.unbind(),
        others: ["stream", "dl_device", "copy"].map(|name| PyString::intern(py, name).unbind()),
        version: PyTuple::new(py, [VERSION.0, VERSION.1])?.unbind(),
        host: PyTuple::new(py, [HOST.device_type, HOST.device_id])?.unbind(),
    };
    Ok(NAMES.get_or_init(|| made))
}

/// `PyObject_VectorcallMethod`: it came into the limited interface with 3.12 only, and is there
/// since 3.9.
fn vectorcall_method() -> PyResult<VectorcallMethod> {
    // SAFETY: the function of this name has had this type since it exists.
    let found = unsafe { Library::this().get::<VectorcallMethod>(b"PyObject_VectorcallMethod\0") };
    found.map(|function| *function).map_err(|error| {
        PyImportError::new_err(format!("crossdock needs CPython 3.11 or later: {error}"))
    })
}

impl Names {
    /// `x.__dlpack__(max_version=(1, 3))`.
    ///
    /// # Errors
    /// What the producer raises.
    pub(crate) fn ask_for_versioned<'py>(
        &self,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = [x.as_ptr(), self.version.as_ptr()];
        let (name, keyword) = (self.dlpack.as_ptr(), self.max_version.as_ptr());
        // SAFETY: live objects; one positional argument (the object) and one keyword's value.
        let result = staying(|| unsafe { (self.call)(name, args.as_ptr(), 1, keyword) });
        // SAFETY: a new reference, or NULL with an exception.
        unsafe { Bound::from_owned_ptr_or_err(x.py(), result) }
    }

    /// `x.__dlpack_device__()`.
    ///
    /// # Errors
    /// What the producer raises.
    pub(crate) fn ask_for_device<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(&self.dlpack_device, x)
    }

    /// What `x` answers to a method that takes nothing.
    ///
    /// # Errors
    /// What it raises.
    pub(crate) fn ask<'py>(
        &self,
        name: &Py<PyString>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = [x.as_ptr()];
        let name = name.as_ptr();
        // SAFETY: live objects; one positional argument, the object.
        let result =
            staying(|| unsafe { (self.call)(name, args.as_ptr(), 1, std::ptr::null_mut()) });
        // SAFETY: a new reference, or NULL with an exception.
        unsafe { Bound::from_owned_ptr_or_err(x.py(), result) }
    }
}
