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
//! | `fault`, `convert`, `table` | failures, tables of numbers, numbers of live objects |

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
