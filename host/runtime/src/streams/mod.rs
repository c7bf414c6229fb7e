//! Order on one device, and waits between plugins.

pub(crate) mod chain;
pub(crate) mod completion;
pub(crate) mod event;
pub(crate) mod internal_streams;
#[cfg(test)]
mod internal_streams_tests;
pub(crate) mod stream;
pub(crate) mod stream_core;
pub(crate) mod stream_frees;
#[cfg(test)]
mod stream_tests;
pub(crate) mod worker;
