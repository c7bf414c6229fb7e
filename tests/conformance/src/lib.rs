//! The behaviour suite that every Crossdock plugin passes: simulated or real, in Rust or in C.
//!
//! A [`Case`] checks one sentence of the plugin contract through the hooks of one open plugin and
//! on one device, the [`Subject`]. Nothing here knows the runtime's routing or any vendor. A case
//! whose group or capability the plugin does not offer is [`Outcome::Skipped`] and says why; that
//! a capability which is off answers `UNSUPPORTED` is checked by cases of its own.
//!
//! | module | what it does |
//! | --- | --- |
//! | `case`, `cases` | a sentence of the contract with its check, and all of them |
//! | `subject` | the plugin and device that are looked at |
//! | `allocation`, `stream`, `event` | memory, streams and events that give themselves back |
//! | `front` | long copies in front of other work |
//! | `ending` | cases in a process of their own, which ends |
//! | `registration`, `host_call` | registered memory, and functions that count their runs |
//! | `description` | what a table says of itself, as its file does |
//! | `raw_call` | hooks by the plugin's own table, with error objects as they are made |
//! | `names` | numbers by their names |
//! | `report`, `junit` | what came out, for people and for machines |
//!
//! ```no_run
//! # fn main() -> Result<(), crossdock::Error> {
//! let runtime = crossdock::Runtime::builder().open()?;
//! for device in runtime.devices() {
//!     let subject = crossdock_conformance::Subject::new(device.plugin().hooks(), device.index())?;
//!     let report = crossdock_conformance::run(&subject, crossdock_conformance::Level::Full, None);
//!     println!("{report}");
//! }
//! # Ok(())
//! # }
//! ```

mod allocation;
mod case;
mod cases;
mod description;
mod ending;
mod event;
mod front;
mod host_call;
mod host_memory;
mod junit;
mod layout;
mod names;
mod random;
mod raw_call;
mod registration;
mod report;
mod run;
mod stream;
mod subject;

pub use case::{Case, Level, Outcome};
pub use cases::cases;
pub use ending::{Ending, end_after, tell_at_exit};
pub use junit::junit;
pub use report::{CaseReport, Report};
pub use run::{run, run_each, selected};
pub use subject::Subject;
