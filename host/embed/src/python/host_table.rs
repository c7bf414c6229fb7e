//! The function table of a `libcrossdock` that lies beside a program.
#![expect(unsafe_code, reason = "opens a library and asks it for its table")]

use std::ffi::c_void;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::failure::{Failure, Kind};
use crate::python::loaded::cause;

/// Opens a copy of `libcrossdock.so.1`, for ever, and gives the function table that it hands out.
///
/// Extension modules that need the library by its name get this copy. Its symbols stay its own.
///
/// # Errors
/// [`Kind::Mismatch`]: the loader could not open it, or it is no library of Crossdock.
pub fn table_of(file: &Path) -> Result<*const c_void, Failure> {
    type GetApi = extern "C" fn() -> *const c_void;
    let failed = |why: String| {
        let what = format!("share the runtime of `{}`", file.display());
        Failure::new(Kind::Mismatch, what).because(why, "install Crossdock again")
    };
    // SAFETY: our own library, whose initialisers do nothing.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| failed(cause(&error)))?;
    // SAFETY: the function of this name has had this type in every version.
    let get = unsafe { library.get::<GetApi>(b"xd_get_api\0") };
    let table = get.map_err(|error| failed(cause(&error)))?();
    let _handle = library.into_raw();
    Ok(table)
}
