//! Crossdock's OpenCL plugin: every device of every installed platform.
//!
//! The OpenCL loader is looked for at run time. Memory of a device is a `cl_mem` handle with a byte
//! offset; a handle is believed only when it was made here or explicitly adopted. Memory with one address
//! (Intel's unified shared memory) is believed where its driver knows it, also when others made it. On devices that
//! work in host memory themselves (CPU devices, proved when the plugin opens) the host reaches
//! every allocation without a copy, and host memory is adopted without one.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `driver` | finding platforms and devices |
//! | `device` | one device and what the driver says about it |
//! | `handle` | counted vendor objects, and whether the vendor may still be called |
//! | `memory`, `pointers` | allocations, the table of known ones |
//! | `mapping`, `view`, `turns` | what the host sees of them, and one thread at a time that maps |
//! | `usm`, `shared` | memory with one address: the driver's functions, and what is known of it |
//! | `backing`, `pool`, `deferred` | host memory under them, kept for the next, given back late |
//! | `users` | the commands that may still use an allocation |
//! | `stream`, `event`, `promise`, `host_call` | queues, points in them, host functions |
//! | `progress`, `awaited` | how far a command is: asking the driver, and waiting with a limit |
//! | `copy`, `place`, `rect` | commands that move bytes, their ends, strided copies as rectangles |
//! | `plugin`, `transfer`, `ordering` | the hooks |
//! | `word` | what can be no object of a driver |
//! | `fault`, `convert` | failures, tables of numbers |
//! | `facts` | where a memory object lies |
//! | `kernel_cache` | the folder without which `PoCL` has no device |
//!
//! # Decisions
//!
//! - *One context a platform*, shared by its devices. An object or queue that others made keeps
//!   its own context: the device is opened once more inside that (`Device::inside`), for all of
//!   them together, and memory of another context is reached by its host address, where it has one.
//! - *A failure of the host is carried beside the driver's events* (`promise.rs`). Drivers lose
//!   the cause, report the work behind it as done, or never run again, so they are only told that
//!   the host is done; the work behind a failure still runs, and says that it failed.
//! - *Running, done and failed are answers, an error is none* (`progress.rs`): where the driver
//!   cannot say how far a command is, what the command uses is kept, and nobody is told that it
//!   is over. Commands stay remembered while the driver is asked about them (`users.rs`).
//! - *Waiting again costs nothing more* (`awaited.rs`): the driver keeps a callback until its
//!   command is over, so a command has one, and a wait for a stream goes on with the marker of
//!   the one before that was too short.
//! - *CPU devices work in host memory*: proved by a copy each way at open, then allocations are
//!   objects over blocks of ours (`pool.rs`). A freed block is kept for the next allocation, at
//!   most a sixteenth of the device's memory, until it is trimmed or the plugin is retired.
//! - *A host view is no mapping* where all devices of a platform are CPUs that work in host
//!   memory: the host sees an allocation where it is, and commands go on using it. Elsewhere, and
//!   for an object of others, all views share one mapping of the whole, which ends with the last
//!   of them; a command answers `CONFLICT` meanwhile. Threads map and unmap an object and its
//!   parts one at a time (`turns.rs`), also over the driver's calls: PoCL finds a mapping by its
//!   address, and frees one that another thread is still making.
//! - *What waits for a queue stands in a line of this queue* (`deferred.rs`): one command of a line is
//!   asked about, however long the line is.
//! - *A queue is released when it is idle* (`deferred.rs`): Intel's runtime hangs one of its
//!   threads otherwise.

mod awaited;
mod backing;
mod convert;
mod copy;
mod deferred;
mod device;
mod driver;
mod event;
mod facts;
mod fault;
mod handle;
mod host_call;
mod kernel_cache;
mod mapping;
mod memory;
mod ordering;
mod place;
mod plugin;
mod pointers;
mod pool;
mod progress;
mod promise;
mod rect;
mod shared;
mod stream;
mod transfer;
mod turns;
mod users;
mod usm;
mod view;
mod word;

pub use plugin::OpenCl;

crossdock_sdk::export_plugin!(OpenCl);
