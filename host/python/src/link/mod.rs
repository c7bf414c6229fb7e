//! To the runtime: its function table, handles of its objects, and its failures as exceptions.

pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod table;
pub(crate) mod waiting;
