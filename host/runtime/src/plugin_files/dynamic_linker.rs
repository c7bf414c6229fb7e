//! What the dynamic linker knows of this process.
#![expect(unsafe_code, reason = "calls of the C library")]

use std::{ffi::CStr, os::unix::ffi::OsStrExt, path::PathBuf, ptr};

/// The file that this code was loaded from: the executable or a library.
pub(super) fn own_file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    /// Any object of this library will do.
    static HERE: u8 = 0;
    // SAFETY: `dladdr` accepts any address and writes `info` only.
    let found = unsafe { libc::dladdr((&raw const HERE).cast(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a name that `dladdr` returned is a C string that lives while this code is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    // For the executable it is `argv[0]`, which any caller can choose.
    path.is_absolute().then_some(path)
}

/// Whether a library of this name is loaded already.
pub(super) fn is_loaded(name: &CStr) -> bool {
    // SAFETY: `name` is a C string, and RTLD_NOLOAD runs nobody's code.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if handle.is_null() {
        return false;
    }
    // SAFETY: the handle was given just now; the library was open before, so it stays.
    unsafe { libc::dlclose(handle) };
    true
}
