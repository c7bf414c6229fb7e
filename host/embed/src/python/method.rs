//! Functions of ours as Python calls them.
#![expect(unsafe_code, reason = "is shared with Python")]

use std::ffi::{CStr, c_char, c_int};

use crate::python::libpython::PyObject;

type Method = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

/// `PyMethodDef`, whose layout the stable ABI fixes.
#[repr(C)]
pub(crate) struct MethodDefinition {
    name: *const c_char,
    method: Method,
    flags: c_int,
    doc: *const c_char,
}

// SAFETY: it points to texts and functions that live for ever.
unsafe impl Sync for MethodDefinition {}

impl MethodDefinition {
    /// A function that takes its arguments as a tuple.
    pub(crate) const fn new(name: &'static CStr, method: Method) -> Self {
        const POSITIONAL: c_int = 1;
        Self {
            name: name.as_ptr(),
            method,
            flags: POSITIONAL,
            doc: std::ptr::null(),
        }
    }
}
