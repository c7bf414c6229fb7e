//! The ground on which simulated devices stand: a scheduler, memory that the host cannot touch, and a
//! checker of order.
//!
//! An [`Engine`] has devices with memory, streams and events. Work is submitted and runs later, by a
//! [`Policy`]; order exists inside a stream and by events, memory waits and host completion, nowhere
//! else. The checker knows of each byte who used it last, and reports two uses that nothing orders,
//! whichever came first in this run: a missing edge is found in every schedule.

mod arena;
mod callers;
mod calls;
mod check;
mod clock;
mod config;
mod engine;
mod error;
mod fault;
mod handle;
mod layout;
mod memory;
mod op;
mod policy;
mod random;
mod report;
mod schedule;
mod shadow;
mod site;
mod standstill;
mod state;
mod strided;
mod wait;

pub use config::{Config, Link, Policy};
pub use engine::Engine;
pub use error::{Error, Failure};
pub use fault::{Fault, Moment};
pub use handle::{Event, Stream};
pub use layout::{Access, Condition, MemoryKind, Owner, Strided, Word};
pub use report::{Report, ReportKind};
pub use site::Site;
