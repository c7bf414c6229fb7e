//! The registry of a runtime: its plugins, its devices, and who owns an address.

pub(crate) mod builder;
pub(crate) mod claim;
pub(crate) mod device;
pub(crate) mod device_order;
pub(crate) mod host_device;
pub(crate) mod index;
pub(crate) mod pointer_query;
pub(crate) mod published;
#[cfg(all(test, loom))]
mod published_loom_tests;
pub(crate) mod registering;
pub(crate) mod registry;
pub(crate) mod runtime;
