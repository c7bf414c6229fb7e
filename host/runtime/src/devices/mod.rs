//! A runtime: its plugins, its devices, and who owns an address.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `runtime`, `builder` | the runtime, and how one is opened |
//! | `registry`, `registering`, `published` | what it lists, how that comes there, and how it is read without a lock |
//! | `device`, `device_sorting`, `host_device` | a device, the order that people give devices, and the host's own |
//! | `pointer_query`, `index` | who owns an address, and who is asked |

pub(crate) mod builder;
pub(crate) mod device;
pub(crate) mod device_sorting;
pub(crate) mod host_device;
pub(crate) mod index;
pub(crate) mod pointer_query;
pub(crate) mod published;
#[cfg(all(test, loom))]
mod published_loom_tests;
pub(crate) mod registering;
pub(crate) mod registry;
pub(crate) mod runtime;
