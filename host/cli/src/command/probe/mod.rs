//! What a plugin file says of itself, in a process of its own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `command`, `process` | the process that asks |
//! | `child` | the process that loads the file |

pub(crate) mod child;
pub(crate) mod command;
pub(crate) mod process;
