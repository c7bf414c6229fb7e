//! What a plugin file says of itself, in a process of its own.

pub(crate) mod child;
pub(crate) mod command;
pub(crate) mod process;
