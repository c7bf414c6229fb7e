//! Finding plugin files, and looking at them before any of their code runs.

mod content;
mod describe;
mod dynamic;
mod float_mode;
mod image;
mod layout_report;
mod load;
mod mapped;
mod names;
mod needed;
mod open;
mod paths;
mod preflight;
mod process;
mod refused;
mod root_symbol;
mod segments;
mod signals;
mod surroundings;

#[cfg(feature = "cpu")]
pub(crate) mod builtin;
pub(crate) mod listing;
pub(crate) mod open_plugins;
pub(crate) mod plugin;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod preflight_tests;

pub use self::describe::{AbiVersion, DescribeError, Description};
pub(crate) use self::float_mode::FloatMode;
pub(crate) use self::load::{inspect, load};
pub use self::paths::{Candidate, Environment, Origin, Search, check_ownership, search};
pub use self::preflight::{FileIdentity, Flavour, Preflight, Remark, preflight};
pub use self::refused::PreflightError;
pub(crate) use self::signals::KeptSignals;
