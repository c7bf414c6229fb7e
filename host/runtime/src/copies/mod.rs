//! Bytes from here to there.

pub(crate) mod elements;
pub(crate) mod host_bytes;
pub(crate) mod order;
pub(crate) mod patch;
pub(crate) mod sorted;
pub(crate) mod span;
pub(crate) mod transfer;
pub(crate) mod walk;
