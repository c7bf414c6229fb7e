//! Scripts, on one thread.

pub(crate) mod host;
pub(crate) mod job;
pub(crate) mod native;
pub(crate) mod queue;
pub(crate) mod queue_state;
pub(crate) mod script_threads;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod sink;
pub(crate) mod worker;
