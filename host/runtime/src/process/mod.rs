//! What the process is.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `process_state` | whether it exits or is a fork, who is told, and what was leaked |
//! | `trace` | the trace file, for Perfetto |
//! | `late_log` | what plugins log once the log may be gone |

pub(crate) mod late_log;
pub(crate) mod process_state;
pub mod trace;
