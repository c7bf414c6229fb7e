//! The small classes.

pub(crate) mod busy_streams;
pub(crate) mod device;
pub(crate) mod dtype;
pub(crate) mod event;
pub(crate) mod format;
pub(crate) mod memory_usage;
pub(crate) mod plugin;
pub(crate) mod pointer;
pub(crate) mod route;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod trace;
pub(crate) mod typestr;
