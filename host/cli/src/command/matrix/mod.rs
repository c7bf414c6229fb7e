//! `crossdock matrix`: every pair of devices.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command` | options, and what is printed |
//! | `run` | each pair, tried and timed |
//! | `page` | the page in HTML |

pub(crate) mod command;
pub(crate) mod page;
pub(crate) mod run;
