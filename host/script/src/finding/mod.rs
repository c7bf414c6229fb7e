//! Which Python is taken, and why.

pub(crate) mod candidate;
pub(crate) mod choice;
pub(crate) mod probe;
pub(crate) mod probe_cache;
pub(crate) mod reason;
pub(crate) mod report;
pub(crate) mod requirements;
pub(crate) mod search;
pub(crate) mod shared_library;
pub(crate) mod startup_check;
