//! Order on one device, and waits between plugins.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stream`, `event` | streams and events as callers have them |
//! | `device_wait` | waits for all work on a device |
//! | `stream_core`, `stream_frees` | a stream as its plugin knows it, and memory that it frees |
//! | `wait` | how a stream waits for an event of another plugin |
//! | `completion`, `worker` | what is done when work is over, and the thread that does it |
//! | `pending` | work that may still run on a memory |
//! | `release` | giving back what work may still use, and waits for that |
//! | `internal_streams` | streams that the runtime makes for itself |

pub(crate) mod completion;
mod device_wait;
pub(crate) mod event;
pub(crate) mod internal_streams;
#[cfg(test)]
mod internal_streams_tests;
pub(crate) mod outstanding_work;
#[cfg(test)]
mod outstanding_work_tests;
pub(crate) mod release;
pub(crate) mod stream;
pub(crate) mod stream_core;
pub(crate) mod stream_frees;
#[cfg(test)]
mod stream_tests;
pub(crate) mod wait;
pub(crate) mod worker;
