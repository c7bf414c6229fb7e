//! Opening a plugin file that passed the preflight, down to its checked table.
#![expect(unsafe_code, reason = "runs code of another library")]

use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr::NonNull;

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::{LibHeader, lib_header_from_path};
use crossdock_sdk::abi::{C_ENTRY_SYMBOL, PluginTable, PluginTableRef, address_of};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::Error;
use crate::table::Table;

/// Loads a Rust plugin: compares the layouts of both sides, then reads its table.
///
/// # Errors
/// What the loader said, or which layout differs.
pub(crate) fn open_rust(path: &Path) -> Result<Table, Error> {
    let header = lib_header_from_path(path).map_err(|error| {
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
    read_table(path, address_of(module))
}

/// Loads a C plugin and calls its entry.
///
/// # Errors
/// What the loader said, or what is wrong with the table.
pub(crate) fn open_c(path: &Path) -> Result<Table, Error> {
    // SAFETY: running the file's constructors is what loading a plugin means; the preflight
    // found it whole and the path rules found it to be trusted.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = opened.map_err(|error| {
        let reason = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        refuse(path, &reason, "install what it needs, or rebuild it")
    })?;
    // Never unloaded: a late deleter still has its code.
    let library = ManuallyDrop::new(library);
    // SAFETY: the preflight found the symbol, and the contract gives it this type.
    let entry =
        unsafe { library.get::<unsafe extern "C" fn() -> *const PluginTable>(C_ENTRY_SYMBOL) };
    let entry = entry.map_err(|error| {
        refuse(
            path,
            &error.to_string(),
            "export `const xd_plugin *crossdock_plugin(void)`",
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
    read_table(path, table)
}

fn read_table(path: &Path, address: NonNull<PluginTable>) -> Result<Table, Error> {
    // SAFETY: a plugin's table is constant and stays mapped, since its library is never unloaded.
    unsafe { Table::read(address) }.map_err(|error| {
        refuse(
            path,
            &error.to_string(),
            "rebuild it with the crossdock-sdk of this host",
        )
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

/// The `field_name:` and `Error:` lines of a layout report, which is hundreds of lines long.
fn summary(report: &str) -> String {
    let telling = |line: &&str| line.starts_with("field_name:") || line.starts_with("Error:");
    let lines: Vec<_> = report
        .lines()
        .map(str::trim)
        .filter(telling)
        .take(8)
        .collect();
    format!("its hook table has another layout: {}", lines.join(", "))
}

fn refuse(path: &Path, why: &str, hint: &str) -> Error {
    Error::Load {
        path: path.to_owned(),
        why: why.to_owned(),
        hint: hint.to_owned(),
    }
}
