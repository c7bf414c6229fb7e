//! Layers: tables that wrap a plugin's table, so they serve plugins that nobody has met yet.
//!
//! A layer sees every hook call as one [`Call`](call::Call), before the plugin does and after it
//! answered, and may answer in the plugin's place. It keeps to the plugin contract on both sides:
//! what it wraps is a table, and what it gives is a table.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `layer` | which layers there are, and what each has to do |
//! | `call` | every hook once: the call as data, the C function, the table |
//! | `arguments` | a hook's arguments, and its answers until they are judged |
//! | `describe` | arguments and answers in words and numbers |
//! | `layered` | one table around another |
//! | `stack` | the tables that one plugin is called through |
//! | `environment` | which layers the process asks for |
//! | `validate` | refuses what the contract forbids, on both sides |
//! | `fault`, `fault_plan` | fails chosen calls |
//! | `trace` | writes every call into the trace file |

mod arguments;
mod call;
mod describe;
mod environment;
mod fault;
mod fault_plan;
mod layer;
mod layered;
mod stack;
mod trace;
mod validate;

pub(crate) use self::environment::{begin_trace, requested};
pub use self::fault_plan::{FaultPlan, FaultPlanError};
pub use self::layer::Layer;
pub(crate) use self::stack::{Stack, Target};
pub use self::validate::LiveObjects;
