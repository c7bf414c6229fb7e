//! Layers: tables around a plugin's table, so they serve plugins that nobody has met yet.
//!
//! A [`Table`] is a plugin's table as a host reads it. A [`Stack`] puts [`Layer`]s around an open plugin:
//! a layer sees every hook call as data, before the plugin does and after it answered, and may answer
//! in the plugin's place. It keeps to the plugin contract on both sides: what it wraps is a table, and
//! what it gives is a table. Nothing of a host's runtime is known here, so a vendor's own tests can put
//! the layers around a plugin without it.
//!
//! A room uses only rooms above it:
//!
//! | room | what it is for |
//! | --- | --- |
//! | `contract` | a plugin's table by its own size, checked, and the texts of its errors |
//! | `calls` | every hook once: the call as data, and one table around another |
//! | `trace` | the trace file, and the layer that writes every call into it |
//! | `fault` | the layer that fails chosen calls |
//! | `validate` | the layer that refuses what the contract forbids, on both sides |
//! | `stack` | which layers are asked for, and the tables that one plugin is called through |
//!
//! # How a layer works
//!
//! A layer is a `PluginTable` around another one: its C functions find the layer by the handle,
//! show it the call as one `Call` before and after, and keep the plugin's answers apart until the
//! layer let them pass. `calls/call.rs` names every hook once, and a layer looks only at the
//! calls that it cares for. Groups that the plugin lacks stay absent. Error objects are remade at
//! each layer, so each table frees its own. `probe` and `open` carry no handle and are not
//! wrapped: the layers go around an open plugin, are chosen when it is opened, and stay with it
//! for all runtimes of the process. The first of a list is nearest to the host.
//!
//! - *Validation* (`CROSSDOCK_LAYERS=validate`) keeps a registry of live memory, streams, events,
//!   mappings, registrations and adoptions. It refuses misuse in the plugin's place (`NOT_OWNER`,
//!   `STALE`, `INVALID`, and `CONFLICT`, as for two threads on one stream) and impossible answers
//!   of the plugin (`ABI`, as for an event that takes a failure back), and reports what is live
//!   at close. An object leaves the registry before the plugin ends it, because another thread
//!   may get its address at once.
//! - *Faults* (`CROSSDOCK_FAULT=allocate:3=OOM_DEVICE,opencl.copy:p0.01@7=VENDOR`) fail chosen
//!   calls. Hooks that give something back are called first. Rules that cannot be read are an
//!   error of `open`. Unless `CROSSDOCK_LAYERS` places `fault`, it is outermost, outside of
//!   validation.
//! - *The trace* (`CROSSDOCK_TRACE=FILE`, or `crossdock::trace::start`) is a layer around all
//!   others that stands beside the direct way: each plugin has both ways from `open` on, and one
//!   relaxed load decides between them for each call. So a program can begin a trace at any time
//!   and sees the plugins that are open, while a call that is not traced passes through nothing.
//!   Routes and copies are spans in the same file.
//!
//! A privileged process ignores all three variables.

mod calls;
mod contract;
mod error;
mod fault;
mod stack;
mod trace;
mod validate;

pub use calls::live_objects::LiveObjects;
pub use calls::target::Target;
pub use contract::plugin_text::read_text;
pub use contract::table::{ErrorOut, Table, TableError};
pub use error::LayersError;
pub use fault::fault_plan::{FaultPlan, FaultPlanError};
pub use stack::environment::{requested, requested_trace};
pub use stack::layer::Layer;
pub use stack::layer_stack::Stack;
pub use trace::trace_file;
