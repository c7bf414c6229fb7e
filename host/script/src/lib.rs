//! Python inside the host: it is found, opened and started at run time, by its stable ABI alone.
//!
//! Nothing here is linked against Python, and nothing of the runtime is known here: the host gives
//! the address of its function table, and scripts reach it through the `crossdock` package.
//!
//! [`Python::open`] finds and opens it, [`Host::start`] starts it, and a [`Session`] is a namespace
//! in which scripts run. There is one thread for scripts (`host`); callers leave letters on its desk
//! (`desk`), and what happens to a letter in Python stands in `sessions.py`.

mod answers;
mod candidate;
mod choice;
mod desk;
mod explain;
mod failure;
mod find;
mod gil;
mod host;
mod host_module;
mod host_table;
mod kin;
mod letter;
mod letters;
mod libpython;
mod library;
mod life;
mod loaded;
mod native;
mod open;
mod package;
mod probe;
mod reason;
mod requirements;
mod run;
mod running;
mod session;
mod signals;
mod sink;
mod tensor;
mod trial;
mod value;
mod worker;

pub use choice::Choice;
pub use explain::{Place, Search};
pub use failure::{Advice, Failure, Kind};
pub use find::{Options, search};
pub use host::Host;
pub use host_table::table_of;
pub use letter::{Limits, Outcome, State};
pub use open::Python;
pub use reason::Reason;
pub use requirements::{Missing, missing_requirements, script_of};
pub use session::{Session, Settings};
pub use sink::{Output, Stream};
pub use tensor::Managed;
pub use value::Value;
