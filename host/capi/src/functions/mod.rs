//! The functions of `crossdock.h`, a file for each object, and the table of them all.

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
pub(crate) mod scripts;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod tensors;
pub(crate) mod trace;
