//! `crossdock run`: scripts.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command` | options, and which Python |
//! | `runtime` | the library whose runtime scripts see |
//! | `logging` | where lines of the log go |

pub(crate) mod command;
pub(crate) mod logging;
pub(crate) mod runtime;
