//! A table with its handle.
#![expect(unsafe_code, reason = "a handle is valid by its maker's promise alone")]

use crossdock_sdk::abi::PluginHandle;

use crate::contract::table::Table;

/// A table with the handle that its hooks take.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    table: Table,
    handle: PluginHandle,
}

impl Target {
    /// A plugin that is open, or a layer around one.
    ///
    /// # Safety
    /// - `handle` is from `open` of this table, and stays open for as long as this or a
    ///   [`Stack`](crate::Stack) around it is used; or it is `NONE`, and no stack is put around it.
    #[must_use]
    pub const unsafe fn new(table: Table, handle: PluginHandle) -> Self {
        Self { table, handle }
    }

    /// The table.
    #[inline]
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// What its hooks take.
    #[inline]
    #[must_use]
    pub const fn handle(&self) -> PluginHandle {
        self.handle
    }
}
