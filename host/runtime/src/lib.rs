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

mod builder;
#[cfg(feature = "cpu")]
mod builtin;
mod calls;
#[cfg(all(test, loom))]
mod calls_loom_tests;
mod chain;
mod claim;
mod completion;
mod costs;
mod counted;
mod device;
mod device_order;
mod elements;
mod error;
mod event;
mod exchange;
mod foreign;
mod hooks;
mod host_bytes;
mod host_device;
mod host_services;
mod index;
mod inherited;
mod internal_streams;
#[cfg(test)]
mod internal_streams_tests;
mod late_log;
mod layers;
mod life;
mod listing;
mod live_objects;
pub mod loader;
mod memory;
mod memory_hooks;
mod object_memory;
mod opened;
mod order;
mod owner;
mod panics;
mod patch;
mod pending;
#[cfg(test)]
mod pending_tests;
mod place;
mod plan;
mod plugin;
mod plugin_text;
mod pointer_query;
mod published;
#[cfg(all(test, loom))]
mod published_loom_tests;
mod registering;
mod registration;
mod registry;
mod release;
mod route;
mod routing;
mod runtime;
mod sorted;
mod span;
mod staging;
mod stream;
mod stream_core;
mod stream_frees;
mod stream_hooks;
#[cfg(test)]
mod stream_tests;
mod table;
mod target;
mod tensor;
mod tensor_order;
#[cfg(test)]
mod test_plugin;
#[cfg(test)]
mod test_plugin_memory;
#[cfg(test)]
mod test_plugin_streams;
pub mod trace;
mod transfer;
mod waits;
mod walk;
mod way;
mod worker;

pub use builder::RuntimeBuilder;
pub use chain::Chain;
pub use costs::{Cost, CostCache, CostOrigin};
pub use device::Device;
pub use error::Error;
pub use event::Event;
pub use foreign::{ReleaseGate, release_lent, release_through};
pub use hooks::Hooks;
pub use host_services::log_level_changed;
pub use late_log::late_log;
pub use layers::{FaultPlan, FaultPlanError, Layer, LiveObjects};
pub use life::{counted_leaks, exiting};
pub use plugin::{Plugin, PluginIdentity, PluginState};
pub use pointer_query::PointerAnswer;
pub use registration::Registration;
pub use route::{Route, RouteChoice, RouteKind, explain, explain_on};
pub use runtime::Runtime;
pub use stream::Stream;
pub use table::{Table, TableError};
pub use target::Target;
pub use tensor::Tensor;

/// Host bytes that somebody else owns: what [`Tensor::from_host_memory`] takes.
pub use owner::HostOwner;
