//! `crossdock bench`: copies and calls.

pub(crate) mod command;
pub(crate) mod run;
