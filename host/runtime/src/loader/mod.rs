//! This room makes open plugins of files. Nothing of a file runs before it was looked at.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `paths` | where files are looked for, and whose files are trusted |
//! | `preflight` | the look at a file: `content` its bytes, `image`, `segments`, `dynamic`, `names`, `root_symbol` what they must look like, `describe` what it says of itself, `needed` the libraries that it wants |
//! | `refused` | why the look refused it |
//! | `load`, `open` | loading it, down to its checked table; `mapped`, `layout_report`, and what is kept over its code: `float_mode`, `signals`, `surroundings` |
//! | `plugin`, `open_plugins` | a loaded plugin: probed and opened at its first need; all that are open in the process |
//! | `listing`, `builtin`, `process` | which runtimes list it; the CPU plugin that is linked in; facts about the process |
//!
//! # Which file is loaded
//!
//! Plugins and Pythons are held to one rule of owners (`sdk/src/trust.rs`): the path is walked as
//! the kernel does, link by link, and each entry on the way must be root's or the user's. Only
//! then the file is opened, once, and read, its holes excepted; it is held open while its plugin
//! is (`Preflight`). The look takes no longer than the file is large: no byte belongs to two
//! sections, names are cut, and segments are searched in order. The dynamic linker compares names
//! before files, so after loading, the mapping of the root symbol is compared with a mapping of
//! that descriptor (`loader/mapped.rs`): both are looked up in `/proc/self/maps`, because some
//! file systems number devices differently there than in `stat`. Where that says nothing, the
//! file is refused. Loading and opening a file leave the thread's floating-point mode as it was
//! (`loader/float_mode.rs`). They also leave the host's signal handlers, except those for faults,
//! and the default of signals that end a process (`loader/signals.rs`); no other hook is guarded
//! so. What constructors change of the working folder and the environment is reported
//! (`loader/surroundings.rs`). Where the path gives an earlier build that is still loaded, a
//! private copy of the new one is loaded; its neighbours by `$ORIGIN` are then not found. A file
//! with the bytes of an open one is that plugin. A plugin that opens a runtime while it is being
//! loaded is told so.

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
