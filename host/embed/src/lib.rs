//! Python inside the host: it is found, opened and started at run time, by its stable ABI alone.
//!
//! Nothing here is linked against Python, and nothing of the runtime is known here: the host gives
//! the address of its function table, and scripts reach it through the `crossdock` package.
//!
//! [`Python::open`] finds and opens it, [`Host::start`] starts it, and a [`Session`] is a namespace
//! in which scripts run. One thread runs scripts; callers put jobs into its queue, and what happens to a job
//! in Python stands in `sessions/sessions.py`.
//!
//! A room uses only rooms above it:
//!
//! | room | what it is for |
//! | --- | --- |
//! | `process` | whether the process is a fork or exits |
//! | `finding` | which Python is taken |
//! | `python` | a Python in this process |
//! | `sessions` | scripts |
//!
//! The interface is smaller than it could be: options for the thread, the signals and finalising
//! are left out, since one answer serves all; what a script hears of a bad value is an exception,
//! so there are no object handles yet; and a value is a flat struct, without a union to misread.
//! `bind`, attached threads and scripts in a process of their own come later:
//! jobs carry names of functions and arguments, which a child process could be sent as well.

mod failure;
mod finding;
mod process;
mod python;
mod sessions;

pub use failure::{Advice, Failure, Kind};
pub use finding::choice::Choice;
pub use finding::reason::Reason;
pub use finding::report::{Place, Search};
pub use finding::requirements::{Missing, missing_requirements, script_of};
pub use finding::search::{Options, search};
pub use python::host_table::table_of;
pub use python::open::Python;
pub use python::tensor::Managed;
pub use python::value::Value;
pub use sessions::host::Host;
pub use sessions::host_function::{Function, FunctionFailure, Output, Stream};
pub use sessions::job::{Limits, Outcome, State};
pub use sessions::session::{Session, Settings};
