//! From a file that was looked at to a loaded plugin.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `load` | a file becomes a plugin, or the open plugin that it is |
//! | `open` | down to its checked table |
//! | `mapped` | whether what was loaded is the file that was looked at |
//! | `layout_report` | which layout of a Rust plugin differs |
//! | `surroundings` | what its constructors changed of the process |
//! | `builtin` | the CPU plugin that is linked in |
//!
//! The dynamic linker compares names before files, so after loading, the mapping of the root symbol
//! is compared with a mapping of the descriptor that was looked at (`mapped.rs`): both are looked
//! up in `/proc/self/maps`, because some file systems number devices differently there than in
//! `stat`. Where that says nothing, the file is refused. What constructors change of the working
//! folder and the environment is reported (`surroundings.rs`). Where the path gives an earlier
//! build that is still loaded, a private copy of the new one is loaded; its neighbours by `$ORIGIN`
//! are then not found. A file with the bytes of an open one is that plugin.

mod layout_report;
mod load;
mod mapped;
mod open;
mod surroundings;

#[cfg(feature = "cpu")]
pub(crate) mod builtin;

pub(crate) use self::load::{inspect, load};
