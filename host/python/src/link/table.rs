//! Where the function table comes from: the host that embeds Python, a `libcrossdock.so.1` that is
//! in the process already, or the one beside this module, in this order.
#![expect(
    unsafe_code,
    reason = "opens a library and reads the table that it hands out"
)]

use std::ffi::{CStr, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use crossdock_api::XdApi;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

static TABLE: OnceLock<&'static XdApi> = OnceLock::new();

/// What the library is called wherever it is loaded.
const LIBRARY: &str = "libcrossdock.so.1";

/// The table that [`find`] found.
///
/// # Panics
/// Before the module was imported, which nothing here is called before.
pub(crate) fn api() -> &'static XdApi {
    #[expect(clippy::expect_used, reason = "the module's first act is `find`")]
    TABLE.get().expect("the module is imported")
}

/// Finds the table, once a process.
pub(crate) fn find(py: Python<'_>) -> PyResult<()> {
    if TABLE.get().is_some() {
        return Ok(());
    }
    let (table, from) = match of_host(py)? {
        Some(table) => (table, "the host program".to_owned()),
        None => of_library()?,
    };
    // SAFETY: what a host or a library of ours hands out is a table, which lives as long as the process.
    let table = unsafe { XdApi::from_raw(table) }.map_err(|why| {
        PyImportError::new_err(format!(
            "crossdock cannot use {from}: it {why}; use the same release of both"
        ))
    })?;
    // Another thread that was faster found the same one.
    let _same = TABLE.set(table);
    Ok(())
}

/// The table of a host that embeds Python: `_crossdock_host.host_api`.
fn of_host(py: Python<'_>) -> PyResult<Option<*const c_void>> {
    const HOST: &str = "_crossdock_host";
    const CAPSULE: &CStr = c"_crossdock_host.host_api";
    let builtin = py.import("sys")?.getattr("builtin_module_names")?;
    if !builtin.contains(HOST)? {
        return Ok(None);
    }
    let capsule = py.import(HOST)?.getattr("host_api")?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    Ok(Some(
        capsule
            .pointer_checked(Some(CAPSULE))?
            .as_ptr()
            .cast_const(),
    ))
}

/// The table of the library that is loaded already, or of the one beside this module.
fn of_library() -> PyResult<(*const c_void, String)> {
    const NOLOAD: i32 = libc::RTLD_NOLOAD;
    // SAFETY: a library that is loaded already runs no initialiser again.
    let loaded = unsafe { Library::open(Some(LIBRARY), RTLD_NOW | NOLOAD) };
    let (library, from) = match loaded {
        Ok(library) => (library, format!("the {LIBRARY} that is loaded")),
        Err(_) => {
            let path = beside()?;
            // SAFETY: our own library, which this package brings; its initialisers do nothing.
            let opened = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
            let library = opened.map_err(|error| {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                PyImportError::new_err(format!(
                    "crossdock cannot load {}: {why}; install the package again",
                    path.display()
                ))
            })?;
            (library, path.display().to_string())
        }
    };
    let get = get_api(&library, &from)?;
    // A runtime is never unloaded: tensors of it may live until the process ends.
    let _handle = library.into_raw();
    Ok((get(), from))
}

fn get_api(library: &Library, from: &str) -> PyResult<extern "C" fn() -> *const c_void> {
    // SAFETY: the function of this name has had this type in every version.
    let symbol = unsafe { library.get::<extern "C" fn() -> *const c_void>(b"xd_get_api\0") };
    match symbol {
        Ok(symbol) => Ok(*symbol),
        Err(error) => Err(PyImportError::new_err(format!(
            "{from} is no library of crossdock: {error}"
        ))),
    }
}

/// `libcrossdock.so.1` in the folder of this module.
fn beside() -> PyResult<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // Any address inside this module.
    let here = (&raw const TABLE).cast::<c_void>();
    // SAFETY: any address may be asked for, and `info` is writable.
    let found = unsafe { libc::dladdr(here, info.as_mut_ptr()) };
    // SAFETY: zeroed, and every bit pattern of it is a `Dl_info`.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return Err(PyImportError::new_err(
            "crossdock cannot tell where it lies",
        ));
    }
    // SAFETY: `dladdr` found the file, whose name lives as long as it is loaded.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    let file = PathBuf::from(std::ffi::OsStr::from_bytes(file.to_bytes()));
    Ok(file.with_file_name(LIBRARY))
}
