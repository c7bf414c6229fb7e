//! What the process is: whether it exits or is a fork, its trace and its last log.

pub(crate) mod late_log;
pub(crate) mod process_state;
pub mod trace;
