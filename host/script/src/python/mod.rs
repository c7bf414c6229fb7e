//! A Python in this process: its library, and calls of it.

pub(crate) mod gil;
pub(crate) mod host_module;
pub(crate) mod host_table;
pub(crate) mod libpython;
pub(crate) mod loaded;
pub(crate) mod open;
pub(crate) mod package;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod tensor;
pub(crate) mod value;
