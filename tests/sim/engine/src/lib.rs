//! A simulator of asynchronous devices: a scheduler, memory that the host cannot touch, and a checker
//! of order.
//!
//! An [`Engine`] has devices with memory, streams and events. Work is submitted and runs later, by a
//! [`Policy`]; order exists inside a stream and by events, memory waits and host completion, nowhere
//! else. The checker knows of each byte who used it last, and reports two uses that nothing orders,
//! whichever came first in this run. A schedule hides a missing edge only where host code had learnt
//! that the first use was over before it submitted the second: by a wait, a query or a host function
//! (`Config::host_functions_inform`). Work that fails uses no bytes.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `config`, `fault` | what a test chooses: devices, queues, policy, seed, faults |
//! | `engine`, `state` | the engine, and all that changes in it behind one lock |
//! | `calls` | the functions of [`Engine`], a file for each kind of thing they are about |
//! | `op`, `schedule`, `policy` | submitted operations, which of them can run, and when they do |
//! | `choices` | what `Seeded` chooses: written down, or taken from a list |
//! | `links`, `paced` | the links that bytes are moved over, and work that takes real time |
//! | `words` | words that streams write and wait for, and what a wait knows by its word |
//! | `ending` | the end of a process: what is left is judged, and not done |
//! | `wait`, `callers` | calling threads that wait, and the threads that call host functions |
//! | `threads` | threads that block all signals |
//! | `arena`, `memory`, `usage`, `strided` | device memory, what is allocated in it, and strided copies |
//! | `export` | memory that another process opens |
//! | `clock`, `shadow`, `check` | vector clocks, the last users of each byte, and the checker |
//! | `error`, `handle`, `layout`, `random` | answers, names of streams and events, arguments, and the generator |
//! | `report`, `site`, `place`, `standstill` | what is reported: kind, calls and who made them, missing edge, deadlocks |
//! | `turns`, `others` | one thread at a time, in an order of the seed |
//! | `trace` | what happened in order, as one number |

mod arena;
mod callers;
mod calls;
mod check;
mod choices;
mod clock;
mod config;
mod ending;
mod engine;
mod error;
mod export;
mod fault;
mod handle;
mod layout;
mod links;
mod memory;
mod op;
mod others;
mod paced;
mod place;
mod policy;
mod random;
mod report;
mod schedule;
mod shadow;
mod site;
mod standstill;
mod state;
mod strided;
pub mod threads;
mod trace;
mod turns;
mod usage;
mod wait;
mod words;

pub use choices::{Schedule, Step};
pub use config::{Config, Link, Policy};
pub use engine::Engine;
pub use error::{Error, Failure};
pub use export::Export;
pub use fault::{Fault, Moment};
pub use handle::{Event, Stream};
pub use layout::{Access, Condition, MemoryKind, Owner, Strided, Word};
pub use links::{End, LinkUse};
pub use others::Others;
pub use place::{Line, Native, Place};
pub use report::{Report, ReportKind};
pub use site::Site;
pub use usage::Usage;
