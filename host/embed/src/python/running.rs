//! What a Python that others started says of itself.
#![expect(unsafe_code, reason = "calls functions of Python's library")]

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::failure::{Failure, Kind};
use crate::finding::choice::{Choice, number, version};
use crate::python::libpython::Functions;
use crate::python::open::version_text;

/// The choice that others made; waits for the interpreter's lock.
pub(crate) fn choice(functions: &Functions, libpython: PathBuf) -> Result<Choice, Failure> {
    let version_text = version_text(functions);
    let number = number(&version_text);
    let Some(version) =
        version(number).filter(|version| *version >= crate::finding::search::OLDEST)
    else {
        let what = "use the Python that runs in this process";
        let why = format!("it is {number}, and 3.11 is the oldest that works");
        return Err(Failure::new(Kind::Mismatch, what).because(why, "use CPython 3.11 or later"));
    };
    // SAFETY: Python runs, and any thread may ask for its lock.
    let attached = unsafe { functions.PyGILState_Ensure() };
    let text = |name| sys_text(functions, name).unwrap_or_default();
    let (executable, prefix) = (text(c"executable"), text(c"prefix"));
    let (base_prefix, abi_flags) = (text(c"base_prefix"), text(c"abiflags"));
    // SAFETY: the other half of the call above, on the same thread.
    unsafe { functions.PyGILState_Release(attached) };
    Ok(Choice {
        executable: executable.into(),
        libpython: Some(libpython),
        version,
        version_text,
        prefix: prefix.into(),
        base_prefix: base_prefix.into(),
        abi_flags: abi_flags.to_string_lossy().into_owned(),
        why: "it runs in this process".to_owned(),
    })
}

/// A text of the module `sys`, by the encoding of file names.
fn sys_text(functions: &Functions, name: &CStr) -> Option<OsString> {
    // SAFETY: a borrowed object or NULL, which asks for nothing but the lock.
    let text = unsafe { functions.PySys_GetObject(name.as_ptr()) };
    if text.is_null() {
        return None;
    }
    // SAFETY: an object; one that is no text gives NULL and an exception.
    let bytes = unsafe { functions.PyUnicode_EncodeFSDefault(text) };
    let mut data = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: both places are writable; NULL or no bytes gives an error.
    let failed = bytes.is_null()
        || unsafe { functions.PyBytes_AsStringAndSize(bytes, &raw mut data, &raw mut size) } != 0;
    let found = if failed {
        // SAFETY: the lock is held.
        unsafe { functions.PyErr_Clear() };
        None
    } else {
        // SAFETY: Python's bytes, with as many as it said, live as long as their object.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size.unsigned_abs()) };
        Some(OsString::from_vec(data.to_vec()))
    };
    // SAFETY: the reference of `PyUnicode_EncodeFSDefault`, or NULL, which does nothing.
    unsafe { functions.Py_DecRef(bytes) };
    found
}
