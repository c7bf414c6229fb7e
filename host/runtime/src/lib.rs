//! Crossdock's host runtime: loads device plugins and moves tensors between them.
//!
//! Start with a [`Runtime`]; it knows the [`Device`]s. A [`Tensor`] lives on one device, comes in
//! and goes out as DLPack, and moves by a [`Route`] that can explain itself.
//!
//! ```
//! use crossdock::{RouteChoice, Runtime, Tensor};
//! use crossdock_sdk::dlpack::{Device, Dtype, Layout};
//!
//! let runtime = Runtime::builder().search(false).open()?;
//! let cpu = runtime.device(Device::CPU)?;
//! let layout = Layout::compact(Dtype::FLOAT32, &[2])?;
//! let tensor = Tensor::from_bytes(&cpu, &layout, &[0, 0, 128, 63, 0, 0, 0, 64])?;
//! let (moved, route) = tensor.to(&cpu, RouteChoice::Best)?;
//! assert_eq!(route.bytes_copied, 0);
//! assert_eq!(moved.read()?, tensor.read()?);
//! # Ok::<(), crossdock::Error>(())
//! ```

mod devices;
mod calls;
#[cfg(all(test, loom))]
mod calls_loom_tests;
mod chain;
mod completion;
mod contract;
mod counted;
mod elements;
mod error;
mod event;
mod exchange;
mod foreign;
mod hooks;
mod host_bytes;
mod inherited;
mod internal_streams;
#[cfg(test)]
mod internal_streams_tests;
mod layers;
mod live_objects;
pub mod loader;
mod memory;
mod object_memory;
mod order;
mod owner;
mod patch;
mod pending;
#[cfg(test)]
mod pending_tests;
mod place;
mod plan;
mod process;
#[cfg(all(test, loom))]
mod published_loom_tests;
mod registration;
mod release;
mod route;
mod routing;
mod sorted;
mod span;
mod stream;
mod stream_core;
mod stream_frees;
#[cfg(test)]
mod stream_tests;
mod target;
mod tensor;
mod tensor_order;
#[cfg(test)]
mod test_plugin;
#[cfg(test)]
mod test_plugin_memory;
#[cfg(test)]
mod test_plugin_streams;
mod transfer;
mod walk;
mod way;
mod worker;

pub use devices::builder::RuntimeBuilder;
pub use chain::Chain;
pub use contract::host_services::log_level_changed;
pub use contract::table::{Table, TableError};
pub use devices::device::Device;
pub use error::Error;
pub use event::Event;
pub use foreign::{ReleaseGate, release_through};
pub use hooks::plugin_hooks::Hooks;
pub use layers::{FaultPlan, FaultPlanError, Layer, LiveObjects};
pub use loader::plugin::{Plugin, PluginIdentity, PluginState};
pub use devices::pointer_query::PointerAnswer;
pub use process::late_log::late_log;
pub use process::process_state::{counted_leaks, exiting};
pub use process::trace;
pub use registration::Registration;
pub use route::{Route, RouteChoice, RouteKind, explain, explain_on};
pub use routing::costs::{Cost, CostCache, CostOrigin};
pub use devices::runtime::Runtime;
pub use stream::Stream;
pub use target::Target;
pub use tensor::Tensor;

/// Host bytes that somebody else owns: what [`Tensor::from_host_memory`] takes.
pub use owner::HostOwner;
