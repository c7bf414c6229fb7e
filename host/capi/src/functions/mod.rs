//! Rooms.

pub(crate) mod default_runtime;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod library;
pub(crate) mod lists;
pub(crate) mod log_function;
pub(crate) mod names;
pub(crate) mod plugin;
pub(crate) mod pointer;
pub(crate) mod registration;
pub(crate) mod route;
pub(crate) mod runtime;
pub(crate) mod script;
pub(crate) mod stream;
pub(crate) mod tensor;
pub(crate) mod trace;
