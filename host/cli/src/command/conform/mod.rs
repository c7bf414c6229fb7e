//! `crossdock conform`: a plugin against the suite, each case in a process of its own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command`, `shown` | options; what is printed |
//! | `ran`, `junit` | what came out, with failures around the cases; the file for CI |
//! | `child`, `process` | a case in a process of its own, on both sides |
//! | `ending` | the end of a process, and of a fork, with the plugin open |
//! | `left` | processes of a plugin that was closed |
//! | `known_failures` | failures that a caller expects |

pub(crate) mod child;
pub(crate) mod command;
pub(crate) mod ending;
mod junit;
pub(crate) mod known_failures;
mod left;
pub(crate) mod process;
mod ran;
pub(crate) mod shown;
