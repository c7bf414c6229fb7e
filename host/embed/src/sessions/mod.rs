//! Scripts: one thread runs them all, and a session is a namespace for them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `session` | a session, and what its owner calls |
//! | `host`, `worker` | the threads, and how a job becomes calls of Python |
//! | `queue`, `queue_state`, `job` | which jobs wait, what follows from that, and what a job is |
//! | `signals`, `script_threads` | the signals of the script thread, and threads that scripts started |
//! | `sink`, `native` | captured output, and functions of the host for `sessions.py` |

pub(crate) mod host;
pub(crate) mod job;
pub(crate) mod native;
pub(crate) mod queue;
pub(crate) mod queue_state;
pub(crate) mod script_threads;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod sink;
pub(crate) mod worker;
