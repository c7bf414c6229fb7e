//! `crossdock run`: scripts.

pub(crate) mod command;
pub(crate) mod logging;
pub(crate) mod runtime;
