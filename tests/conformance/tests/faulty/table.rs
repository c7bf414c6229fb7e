//! The CPU plugin's table with one fault, opened as a plugin.
#![expect(unsafe_code, reason = "reads a table by its address")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

use std::ptr::NonNull;

use crossdock::{Hooks, Table};
use crossdock_plugin_cpu::table;
use crossdock_sdk::abi::{PluginTable, RawError, StaticPtr};

pub(crate) type ErrorOut = *mut *mut RawError;

/// The sound plugin's table.
pub(crate) fn sound() -> PluginTable {
    // SAFETY: the table is a constant of this program.
    unsafe { table().read() }
}

/// An open plugin with a fault.
pub(crate) fn open(change: impl FnOnce(&mut PluginTable)) -> Hooks {
    let mut faulty = sound();
    change(&mut faulty);
    let faulty = NonNull::new(group(faulty).as_ptr().cast_mut()).unwrap();
    // SAFETY: a whole table, which is leaked; its groups are constants or leaked too.
    let table = unsafe { Table::read(faulty) }.unwrap();
    let mut hooks = Hooks::new("faulty".to_owned(), table);
    hooks.open().unwrap();
    hooks
}

/// Leaks a table or a group of hooks, as a plugin's are for ever.
pub(crate) fn group<T: 'static>(hooks: T) -> StaticPtr<T> {
    StaticPtr::new(Box::leak(Box::new(hooks)))
}
