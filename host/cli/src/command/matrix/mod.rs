//! `crossdock matrix`: every pair of devices.

pub(crate) mod command;
pub(crate) mod page;
pub(crate) mod run;
