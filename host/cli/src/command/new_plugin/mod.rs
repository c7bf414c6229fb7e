//! `crossdock new-plugin`: the project of a plugin, which builds and passes `conform` as it is.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command` | options, and what is printed |
//! | `project` | the files of a project, and how they are written: all or none |
//! | `sdk` | where the sdk lies that they are built with |
//! | `templates` | the files; of Rust, `examples/plugin-rust` has the rest |

pub(crate) mod command;
mod project;
mod sdk;
