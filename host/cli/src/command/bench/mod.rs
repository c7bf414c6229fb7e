//! `crossdock bench`: copies and calls.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command` | options, and what is printed |
//! | `run` | what is measured |

pub(crate) mod command;
pub(crate) mod run;
