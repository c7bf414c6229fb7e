//! Opening a plugin file that passed the preflight, down to its checked table.
#![expect(unsafe_code, reason = "runs code of another library")]

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr::NonNull;

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::{AbiHeaderRef, LibHeader};
use crossdock_layers::{Table, TableError};
use crossdock_sdk::abi::{C_ENTRY_SYMBOL, PluginTable, PluginTableRef, address_of};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::layout_report::summary;
use super::mapped::{PrivateCopy, is_mapped_from};
use crate::error::Error;
use crate::plugin_files::image::RUST_ROOT;
use crate::plugin_files::{Preflight, PreflightError, Remark};

/// Loads a Rust plugin: compares the layouts of both sides, then reads its table.
///
/// # Errors
/// What the loader said, or which layout differs.
pub(crate) fn open_rust(found: &Preflight) -> Result<Table, Error> {
    let mapped = Mapped::of(found, RUST_ROOT)?;
    let path = &found.path;
    // SAFETY: the preflight found the symbol, which by its name has this type, and the library is
    // never unloaded.
    let header = unsafe { mapped.library.get::<AbiHeaderRef>(RUST_ROOT) };
    let header = header
        .map_err(|error| refuse(path, &error.to_string(), "export it with `export_plugin!`"))?;
    let header = header.upgrade().map_err(|error| {
        refuse(
            path,
            &error.to_string(),
            "rebuild it with the crossdock-sdk of this host",
        )
    })?;
    check_layout(path, header)?;
    // SAFETY: the layouts were compared just now, in one direction or the other.
    let module = unsafe { header.unchecked_layout::<PluginTableRef>() }.map_err(|error| {
        refuse(
            path,
            &error.to_string(),
            "report this to the plugin's author",
        )
    })?;
    read_table(found, address_of(module))
}

/// Loads a C plugin and calls its entry.
///
/// # Errors
/// What the loader said, or what is wrong with the table.
pub(crate) fn open_c(found: &Preflight) -> Result<Table, Error> {
    let mapped = Mapped::of(found, C_ENTRY_SYMBOL)?;
    let path = &found.path;
    // SAFETY: the preflight found the symbol, and the contract gives it this type.
    let entry = unsafe {
        mapped
            .library
            .get::<unsafe extern "C" fn() -> *const PluginTable>(C_ENTRY_SYMBOL)
    };
    let entry = entry.map_err(|error| {
        refuse(
            path,
            &error.to_string(),
            "export `const xd_plugin_table *crossdock_plugin(void)`",
        )
    })?;
    // SAFETY: the entry takes nothing and returns its constant table.
    let table = unsafe { entry() };
    let Some(table) = NonNull::new(table.cast_mut()) else {
        return Err(refuse(
            path,
            "its entry returned NULL",
            "return the address of a constant table",
        ));
    };
    read_table(found, table)
}

/// A library that was opened, and is the file that the preflight looked at.
struct Mapped {
    /// Never unloaded: a late deleter still has its code.
    library: ManuallyDrop<Library>,
    /// Removed once the table was read; what is mapped stays.
    _copy: Option<PrivateCopy>,
}

impl Mapped {
    /// Opens the file. Where its path gives an earlier build that is still loaded, a private copy of
    /// the file is opened under a name of its own.
    fn of(found: &Preflight, root: &str) -> Result<Self, Error> {
        let known = open_library(&found.path, libc::RTLD_NOLOAD).is_ok();
        let library =
            open_library(&found.path, 0).map_err(|error| refused(found, &cause(&error)))?;
        let library = ManuallyDrop::new(library);
        match is_from(&library, root, &found.file) {
            Some(true) => {}
            None => {
                return Err(refuse(
                    &found.path,
                    "the system does not tell which file was loaded from its path",
                    "mount `/proc`: `/proc/self/maps` says which file was mapped",
                ));
            }
            Some(false) if known => return Self::of_copy(found, root),
            Some(false) => {
                let why = "another file was put in its place while it was loaded";
                return Err(refuse(
                    &found.path,
                    why,
                    "load it again once it is installed",
                ));
            }
        }
        Ok(Self {
            library,
            _copy: None,
        })
    }

    fn of_copy(found: &Preflight, root: &str) -> Result<Self, Error> {
        let cannot = |reason: &str| {
            let why = format!(
                "its path is that of an earlier build that is still loaded, and a copy of the new \
                 one cannot be loaded beside it: {reason}"
            );
            refuse(
                &found.path,
                &why,
                "give the new build another name, or restart the program",
            )
        };
        let copy = PrivateCopy::of(&found.file, &found.path);
        let copy = copy.map_err(|error| cannot(&error.to_string()))?;
        let library = open_library(&copy.path, 0).map_err(|error| cannot(&cause(&error)))?;
        let library = ManuallyDrop::new(library);
        if is_from(&library, root, &copy.file) != Some(true) {
            return Err(cannot("it was replaced, or the system does not tell"));
        }
        let (new, at) = (found.path.display(), copy.path.display());
        log::info!(target: "crossdock::load", "the new build of `{new}` is loaded as `{at}`");
        Ok(Self {
            library,
            _copy: Some(copy),
        })
    }
}

fn open_library(path: &Path, flags: i32) -> Result<Library, libloading::Error> {
    // SAFETY: running the file's constructors is what loading a plugin means; the preflight
    // found it whole and the path rules found it to be trusted.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | flags) }
}

/// The dynamic linker's words.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whether a library's root symbol lies in a mapping of `file`.
fn is_from(library: &Library, root: &str, file: &File) -> Option<bool> {
    // SAFETY: only the address is taken; nothing is read there.
    let symbol = unsafe { library.get::<*const u8>(root) }.ok()?;
    is_mapped_from(*symbol, file)
}

/// The dynamic linker's reason, in words that name what is to be done.
fn refused(found: &Preflight, reason: &str) -> Error {
    let missing = found.missing();
    if !missing.is_empty() {
        let error = PreflightError::MissingDependency {
            path: found.path.clone(),
            library: missing.join("`, `"),
        };
        return refuse(&found.path, &error.why(), &error.hint());
    }
    if reason.contains("static TLS") && found.remarks.contains(&Remark::StaticTls) {
        return refuse(&found.path, reason, &Remark::StaticTls.to_string());
    }
    refuse(&found.path, reason, "install what it needs, or rebuild it")
}

fn read_table(found: &Preflight, address: NonNull<PluginTable>) -> Result<Table, Error> {
    // SAFETY: a plugin's table is constant and stays mapped, since its library is never unloaded.
    unsafe { Table::read(address) }.map_err(|error| match error {
        // The description was found to be of this version before.
        TableError::Version {
            plugin_major,
            plugin_minor,
        } => refuse(
            &found.path,
            &format!(
                "its table says ABI {plugin_major}.{plugin_minor}, and its description says {}",
                found.description.abi
            ),
            "set `abi_major` and `abi_minor` to `XD_ABI_MAJOR` and `XD_ABI_MINOR`, and build all of it \
             against one version of the sdk",
        ),
        error => refuse(
            &found.path,
            &error.to_string(),
            "build it with the headers or the sdk of this host, and fill in what is missing",
        ),
    })
}

/// An older plugin in a newer host and a newer plugin in an older host are both good: the shorter
/// table must be a prefix of the longer one.
fn check_layout(path: &Path, header: &LibHeader) -> Result<(), Error> {
    let Some(theirs) = header.layout() else {
        return Err(refuse(
            path,
            "it carries no layout to check",
            "export it with `export_plugin!`",
        ));
    };
    let ours = <PluginTableRef as StableAbi>::LAYOUT;
    let Err(forward) = check_layout_compatibility(ours, theirs) else {
        return Ok(());
    };
    if check_layout_compatibility(theirs, ours).is_ok() {
        return Ok(());
    }
    let report = forward.to_string();
    log::debug!(target: "crossdock::load", "{}: {report}", path.display());
    Err(refuse(
        path,
        &summary(&report),
        "rebuild it with the crossdock-sdk of this host",
    ))
}

fn refuse(path: &Path, why: &str, hint: &str) -> Error {
    Error::Load {
        path: path.to_owned(),
        why: why.to_owned(),
        hint: hint.to_owned(),
    }
}
