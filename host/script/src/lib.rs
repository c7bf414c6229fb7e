//! Python inside the host: it is found, opened and started at run time, by its stable ABI alone.
//!
//! Nothing here is linked against Python, and nothing of the runtime is known here: the host gives
//! the address of its function table, and scripts reach it through the `crossdock` package.

mod answers;
mod candidate;
mod choice;
mod explain;
mod failure;
mod find;
mod host_module;
mod host_table;
mod libpython;
mod library;
mod loaded;
mod open;
mod package;
mod privilege;
mod probe;
mod reason;
mod requirements;
mod run;
mod running;

pub use choice::Choice;
pub use explain::{Place, Search};
pub use failure::{Advice, Failure, Kind};
pub use find::{Options, search};
pub use host_table::table_of;
pub use open::Python;
pub use reason::Reason;
pub use requirements::missing_requirements;
