//! Crossdock's CPU plugin: host memory as a device, with real streams and copies at memory speed.
//!
//! A host that links it in takes [`table`]; the crate beside this one exports [`Cpu`] as a file.
//! `CROSSDOCK_CPU_THREADS` limits the threads that work on one copy.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`copy`] | plans copies of any layout, and runs them on several threads |
//! | [`fill`] | repeats a pattern over memory |
//! | [`memory`], [`pages`] | allocates, and keeps freed blocks warm |
//! | `limits` | how much memory the process may have |
//! | [`pointers`] | answers which allocation an address lies in |
//! | [`stream`], [`event`] | work in order, and points in it |
//! | [`threads`] | run the streams that have work; a stream that waits needs none |
//!
//! # Streams
//!
//! Streams are queues (`queue.rs`), and a thread runs one only while it has work (`threads.rs`).
//! A stream that comes to an event which is pending is left with that event: the one that
//! completes it goes on with the stream, through records and waits, and has a thread run its
//! work. So a thousand releases that wait cost no thread. Work may block, so each stream that has
//! work gets a thread: a pool with a bound could stand still. Idle threads stay for a few
//! seconds, sixteen of them at most, and the last one until the plugin is closed: work that was
//! taken finds it. Work without any thread is refused with `OOM_HOST` where it is submitted;
//! records and waits need none.

mod convert;
pub mod copy;
mod device;
pub mod event;
pub mod fill;
mod limits;
pub mod memory;
pub mod pages;
mod plugin;
mod plugin_streams;
pub mod pointers;
mod queue;
pub mod stream;
pub mod threads;
mod work;

pub use plugin::{Cpu, table};
