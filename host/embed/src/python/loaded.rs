//! A Python that some library or program has loaded into the process already.
#![expect(
    unsafe_code,
    reason = "looks for a library that is loaded, and asks which file it is"
)]

use std::ffi::{CStr, OsStr, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_NOW};

/// The library that is loaded, with its symbols open to all extension modules.
///
/// Symbols of the executable and of libraries that were opened for all are found by name. One that
/// was opened for its user alone is found among the mapped files, and is promoted.
pub(crate) fn python() -> Option<(Library, PathBuf)> {
    let file = match of_all() {
        Some(address) => file_of(address)?,
        None => mapped()?,
    };
    let promoted = RTLD_LAZY | libc::RTLD_NOLOAD | RTLD_GLOBAL;
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some(&file), promoted) };
    // An executable that is Python itself cannot be opened, but its symbols are everybody's.
    let library = library.unwrap_or_else(|_executable| Library::this());
    is_python(&library).then_some((library, file))
}

/// Opens a library for all that comes after it, extension modules mainly.
pub(crate) fn open(file: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: a Python's own library, whose initialisers start nothing.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }
}

/// What the loader said.
pub(crate) fn cause(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    cause.unwrap_or_else(|| error.to_string())
}

/// The file that the code or data at `address` was loaded from.
pub(crate) fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for, and `info` is writable.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeroed, and every bit pattern of it is a `Dl_info`.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: `dladdr` found the file, whose name lives as long as it is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let name = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    // The executable goes by the name that it was called with.
    if name.is_absolute() {
        Some(name)
    } else {
        std::env::current_exe().ok()
    }
}

fn of_all() -> Option<*const c_void> {
    address(&Library::this())
}

fn is_python(library: &Library) -> bool {
    address(library).is_some()
}

fn address(library: &Library) -> Option<*const c_void> {
    // SAFETY: only its address is taken.
    let found = unsafe { library.get::<*const c_void>(b"Py_IsInitialized\0") };
    found.ok().map(|address| *address)
}

fn mapped() -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let lines = maps.split(|byte| *byte == b'\n');
    let mut files = lines.filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        let file = line.get(start..)?;
        // The library stays loaded under its name when its file is replaced.
        let file = file.strip_suffix(b" (deleted)").unwrap_or(file);
        Some(Path::new(OsStr::from_bytes(file)))
    });
    let file = files.find(|file| {
        let name = file.file_name().map(OsStr::as_bytes).unwrap_or_default();
        name.starts_with(b"libpython3.") && !name.starts_with(b"libpython3.so")
    });
    file.map(Path::to_owned)
}
