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
//!
//! | room | what it is for |
//! | --- | --- |
//! | `process` | whether the process exits or is a fork; the trace |
//! | `hooks` | an open plugin, its hooks called safely through the layers of `crossdock-layers` |
//! | `plugin_files` | plugin files: found, and looked at while none of their code runs |
//! | `plugins` | the plugins that are open in the process, and what each of them keeps |
//! | `loader` | from a file to a loaded plugin |
//! | `route_data` | what devices share for routes, as data: known costs, idle chunks of host memory |
//! | `devices` | a runtime: its plugins, its devices, and who owns an address |
//! | `streams` | order on one device, and waits between plugins |
//! | `tensors` | tensors, and the memory that they view |
//! | `copies` | bytes from here to there |
//! | `routes` | how a tensor becomes another device's |
//! | `exchange` | tensors of others, in |

pub use crossdock_layers::{FaultPlan, FaultPlanError, Layer, LiveObjects, Table, TableError};

mod copies;
mod devices;
mod error;
mod exchange;
mod hooks;
mod loader;
pub mod plugin_files;
mod plugins;
mod process;
mod route_data;
mod routes;
mod streams;
mod tensors;
#[cfg(test)]
mod test_plugins;

pub use devices::builder::RuntimeBuilder;
pub use devices::device::Device;
pub use devices::pointer_query::PointerAnswer;
pub use devices::runtime::Runtime;
pub use error::{DevicesHere, Error};
pub use hooks::host_services::log_level_changed;
pub use hooks::plugin_hooks::Hooks;
pub use plugins::open_plugins::watch as watch_process;
pub use plugins::plugin::{Plugin, PluginIdentity, PluginState};
pub use process::late_log::late_log;
pub use process::process_state::{counted_leaks, exiting};
pub use process::trace;
pub use route_data::costs::{Cost, CostCache, CostOrigin};
pub use route_data::kinds::{RouteChoice, RouteKind};
pub use routes::explanation::{Instead, RefusedRoute, Step};
pub use routes::route::{Route, explain, explain_on};
pub use streams::event::Event;
pub use streams::stream::Stream;
pub use streams::wait::WaitMethod;
pub use tensors::foreign::{MemoryOwner, ReleaseGate, release_lent, release_through};
pub use tensors::registration::Registration;
pub use tensors::target::Target;
pub use tensors::tensor::Tensor;

/// Host bytes that somebody else owns: what [`Tensor::from_host_memory`] takes.
pub use tensors::owner::HostOwner;
