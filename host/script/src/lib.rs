//! Python inside the host: it is found, opened and started at run time, by its stable ABI alone.
//!
//! Nothing here is linked against Python, and nothing of the runtime is known here: the host gives
//! the address of its function table, and scripts reach it through the `crossdock` package.
//!
//! [`Python::open`] finds and opens it, [`Host::start`] starts it, and a [`Session`] is a namespace
//! in which scripts run. There is one thread for scripts (`host`); callers leave letters on its desk
//! (`desk`), and what happens to a letter in Python stands in `sessions.py`.

mod desk;
mod failure;
mod finding;
mod gil;
mod host;
mod host_module;
mod host_table;
mod kin;
mod letter;
mod letters;
mod libpython;
mod life;
mod loaded;
mod native;
mod open;
mod package;
mod run;
mod running;
mod session;
mod signals;
mod sink;
mod tensor;
mod value;
mod worker;

pub use failure::{Advice, Failure, Kind};
pub use finding::choice::Choice;
pub use finding::reason::Reason;
pub use finding::report::{Place, Search};
pub use finding::requirements::{Missing, missing_requirements, script_of};
pub use finding::search::{Options, search};
pub use host::Host;
pub use host_table::table_of;
pub use letter::{Limits, Outcome, State};
pub use open::Python;
pub use session::{Session, Settings};
pub use sink::{Output, Stream};
pub use tensor::Managed;
pub use value::Value;
