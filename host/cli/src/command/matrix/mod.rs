//! `crossdock matrix`: every pair of devices.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command` | options, and what is told at the end |
//! | `shown` | what is printed and written while it runs |
//! | `made` | where and when it was |
//! | `page`, `markdown` | the page in HTML, and a table for CI |
//! | `required` | routes that must be there |
//! | `process` | the pairs in processes of their own, followed |
//! | `child` | that process |
//! | `run` | a pair, tried and timed |

pub(crate) mod child;
pub(crate) mod command;
mod made;
mod markdown;
mod page;
mod process;
mod required;
mod run;
mod shown;
