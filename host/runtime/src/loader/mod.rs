//! From files to open plugins. Nothing of a file runs before it was looked at.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `paths` | where files are looked for, and whose files are trusted |
//! | `preflight` | the look at a file: `content` its bytes, `image`, `segments`, `dynamic`, `names`, `root_symbol` what they must look like, `describe` what it says of itself, `needed` the libraries that it wants |
//! | `refused` | why the look refused it |
//! | `load`, `open` | loading it, down to its checked table; `mapped`, `layout_report`, and what is kept over its code: `float_mode`, `signals`, `surroundings` |
//! | `plugin`, `open_plugins` | a loaded plugin: probed and opened at its first need; all that are open in the process |
//! | `listing`, `builtin`, `process` | which runtimes list it; the CPU plugin that is linked in; facts about the process |

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
