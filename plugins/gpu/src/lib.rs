//! What Crossdock's plugins for GPUs have in common, whoever makes the device: all but its driver.
//!
//! A vendor's plugin is a crate of its own, which opens the driver and implements [`Vendor`]. [`Gpu`] over it is the
//! plugin. Nothing here has a vendor's name or function (`tests/words.rs` looks for them) or number.
//!
//! To add a vendor, write these files, as the crates that are there have them:
//!
//! 1. `functions`: the driver's functions, in the macro [`functions!`], and `load`, which opens the library.
//! 2. `codes`: its numbers, and which [`ErrorKind`](vendor::ErrorKind) of failure each result is. `structs`: what it reads and
//!    writes, as structs of integers.
//! 3. `driver`: the trait [`Vendor`]. `lib`: `type Plugin = Gpu<..>`, and `export_plugin!`.
//! 4. `tests/file.rs` (the file needs no symbol of the vendor), `tests/probing.rs` (drivers that cannot be used) and
//!    the conformance suite, on a device or over a simulated driver. `tests/sim` has those of the vendors that are
//!    there, as faces of one engine; another vendor's is a face more.
//!
//! `CONTRIBUTING.md` says where else a new plugin is named.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `vendor`, `answers` | what a vendor's crate gives |
//! | `library` | the vendor's library and its functions, for that crate |
//! | `driver` | the driver, looked for and opened, and whether it may still be called |
//! | `device`, `current` | one device, and calls inside of its context |
//! | `ended_streams` | streams of ours that are no longer used while their work runs |
//! | `memory`, `users`, `cleared_failures`, `blocks`, `counts` | allocations, who uses them, memory that is kept, and what is counted |
//! | `pointers`, `place` | the table of known memory, and the ends of a copy |
//! | `stream`, `stream_wait`, `event`, `native`, `promise`, `word`, `host_waits` | streams, points in them, and what the host completes |
//! | `host_call`, `progress` | host functions; how far work is, and waiting with a limit |
//! | `peer` | direct links between two devices |
//! | `work`, `copy`, `bounce`, `fill`, `strided`, `rect` | work that moves bytes, and in which context |
//! | `plugin`, `ordering`, `transfer`, `register`, `pool` | the hooks |
//! | `fault` | failures |
//!
//! # Terms
//!
//! | term | what it means here |
//! | --- | --- |
//! | driver | the vendor's library that is called, also where the vendor calls it a runtime |
//! | ordinal, index | a device's number in the driver, and in this plugin: the same number |
//! | context | what the driver keeps streams, events and memory in; where it has none, a number that stands for a device |
//! | home (`device`) | a device's own (primary) context, with its stream for allocations and its pool; made at the first need |
//! | entered, inside (`current`) | the context is current on this thread until the value is dropped |
//! | ours, others' | made by this plugin; made by another library in the process, and only used here |
//! | block (`blocks`) | memory from the driver that is kept for the next allocation instead of being freed |
//! | page-locked, pageable | host memory that the driver holds in place (pinned or registered), and host memory that it does not know |
//! | place (`place`) | one side of a copy, with whose memory it is; a *site* (`work`) is the context that the copy is made in |
//! | bounce, lane (`bounce`) | a pageable copy that goes through pinned memory; a stream and its pinned block for that |
//! | promise (`promise`) | what the host will complete (a host event), with its outcome |
//! | word (`word`) | 32 bits of pinned memory that a stream waits for |
//! | point (`event`, `native`) | a place in the order of a stream: an event that was recorded |
//! | lost | the device answers nothing but failures: work on it is refused for as long as the plugin is open |
//!
//! # Decisions
//!
//! - *A device's context is retained by the first call that needs it*, and by none before: listing devices makes none.
//!   Each call enters its context and leaves the thread's as it was. Work on streams of others is done in their
//!   context. Where a driver has devices and no contexts, a number for the device takes their place.
//! - *Nothing waits for a whole device, but an allocation that finds memory full, a trim of blocks, and the close.*
//!   Memory comes from a pool in stream order, on a stream of its own. Where the driver has none, and for pinned and
//!   managed memory, freed blocks are kept for the next allocation, because the driver's free waits for the device.
//!   They are freed when memory is full, by a trim (device memory without a pool), or when the plugin is closed.
//! - *An allocation is ready at once, or carries the point from which it is* (`memory.rs`): hardware queues may keep
//!   the stream of allocations behind work that waits for the host.
//! - *A copy on a stream does not wait, unless the driver refuses a call in the middle of it*: then this thread waits
//!   for what has begun, since the caller may free the memory. For pageable memory the stream calls the host,
//!   which moves the bytes through pinned memory of the stream's own (`bounce.rs`). Where nobody can tell when that
//!   memory is free, it stays until the close.
//! - *A failure of the host is carried beside the driver's events* (`promise.rs`), as the driver knows none.
//! - *Host events are words of memory that streams wait for* (`word.rs`). Where the driver has no such waits, the
//!   plugin has no host events.
//! - *Running, done and failed are answers about work; an error says only that the question failed* (`progress.rs`).
//! - *A device is lost* when its driver answers a call, and then a query of the stream of allocations (before there is
//!   one: of free memory), with a fatal error (`device.rs`). From then on the driver no longer calls host functions,
//!   and they are run here.
//! - *Captures of others go on*: inside of a context the thread may do what they forbid (`current.rs`), and nothing is
//!   put on a stream that is captured.

mod answers;
mod blocks;
mod bounce;
mod cleared_failures;
mod copy;
mod counts;
mod current;
mod device;
mod driver;
mod ended_streams;
mod event;
mod fault;
mod fill;
mod host_call;
mod host_waits;
mod library;
mod memory;
mod native;
mod ordering;
mod peer;
mod place;
mod plugin;
mod pointers;
mod pool;
mod progress;
mod promise;
mod rect;
mod register;
mod stream;
mod stream_wait;
mod strided;
mod transfer;
mod users;
pub mod vendor;
mod word;
mod work;

pub use plugin::Gpu;
pub use vendor::Vendor;

/// Where lines of the log come from.
const TARGET: &str = "crossdock::plugin::gpu";
