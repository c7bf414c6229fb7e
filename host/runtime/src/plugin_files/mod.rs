//! Plugin files: found, and looked at while none of their code runs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `paths` | where files are looked for, and whose files are trusted |
//! | `preflight` | the look at a file: what it is, and what a person should know of it |
//! | `content` | the parts of it that are looked at |
//! | `image`, `dynamic`, `names` | what they must look like before they may be mapped |
//! | `describe` | what it says of itself |
//! | `needed`, `dynamic_linker` | the libraries that it needs; what this process has loaded |
//! | `loaded_copies` | copies of one library in this process |
//! | `refused` | why it was refused |
//!
//! Plugins and Pythons are held to one rule of owners (`sdk/src/trust.rs`): the path is walked as
//! the kernel does, link by link, and each entry on the way must be root's or the user's. Only
//! then the file is opened, once, and read, its holes excepted; it is held open while its plugin
//! is (`Preflight`). The look takes no longer than the file is large: names are cut.

mod content;
mod describe;
mod dynamic;
mod dynamic_linker;
pub(crate) mod image;
pub(crate) mod loaded_copies;
mod names;
mod needed;
mod paths;
mod preflight;
mod refused;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod preflight_tests;

pub use self::describe::{AbiVersion, DescribeError, Description};
pub use self::paths::{Candidate, Environment, Origin, Search, check_ownership, search};
pub use self::preflight::{FileIdentity, Flavour, Preflight, Remark, preflight};
pub use self::refused::PreflightError;
