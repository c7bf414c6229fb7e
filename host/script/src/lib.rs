//! Python inside the host: it is found, opened and started at run time, by its stable ABI alone.
//!
//! Nothing here is linked against Python, and nothing of the runtime is known here: the host gives
//! the address of its function table, and scripts reach it through the `crossdock` package.

mod choice;
mod failure;
mod libpython;

pub use choice::Choice;
pub use failure::{Failure, Kind};
