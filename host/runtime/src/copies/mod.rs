//! This room copies bytes, and decides what each copy has to wait for.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `order` | what work has to wait for: every copy is made through it |
//! | `work_stream` | the stream that work is put on, and what it waits for before |
//! | `transfer` | one hook call |
//! | `content` | the calls of tensors that read and write bytes |
//! | `elements` | elements of any layout, by the fewest steps that the plugins can make |
//! | `span`, `sorted`, `patch`, `walk` | the last of these steps: by bytes on the host |
//! | `stage` | through host memory in chunks, by workers that keep both links busy |
//! | `stage_on_stream` | the same in the order of a stream: all of it is submitted before the call returns |
//! | `host_bytes` | host memory of a size that others choose: an error where there is too little |
//!
//! # Order
//!
//! *Where it is kept.* `order.rs` makes a stream wait for what its work depends on, and enters
//! the event at the end of the work in the memories that it touches (`outstanding_work.rs`: the
//! last write, the reads since; aliases of one memory share them). So a later use of a tensor, on
//! any stream or none, comes after. What cannot follow a stream (bytes of the host) waits for the
//! work on it first (`order::synchronize`), so nothing is pending behind it. Only freeing goes
//! past this file (`Memory::free_in_order`).
//!
//! *A stream of another plugin.* Work by another plugin than the stream's goes to an internal
//! stream of that plugin (`streams/internal_stream.rs`), which waits for an event of the caller's
//! stream; the caller's then waits for an event of the internal one. Such work never goes to the
//! default stream, which may be blocked. The internal stream also waits for the memory's earlier
//! work itself: the caller's stream alone would go on too early where its plugin breaks down.
//!
//! *Failures.* A write that failed stays in the memory's outstanding work, where each read finds
//! it, until a write of all elements replaces it: one on a stream when it is entered, one without
//! a stream when it has succeeded (`Accesses::synchronously`). Whether a write was of all
//! elements is known by the tensor that the memory was made for: elements of less than a byte
//! share the last byte, so the size in bytes does not say it. On one stream a read learns of a
//! failed write by the stream itself, which by the contract hands a failure on until
//! `stream_synchronize` has told of it. So a stream counts the waits that have told of a failure
//! or may be about to, before they call the hook; from then on a read asks the event of the
//! write, before the work and once more after the end of the work was recorded. An event that was
//! recorded too late to fail with the work carries the failure in the runtime (`Event::carry`),
//! and streams of its own plugin wait for it as for another plugin's. A write without a stream
//! that fails is not remembered: a refusal looks like a failure there, and its caller knows. Of work that
//! fails as it is put on a stream a part may be there, so the memories are kept until what is on the
//! stream by then is over. Only `UNSUPPORTED` and `CAPTURING` say that nothing is there.
//!
//! *Exports.* A consumer may write what it gets, unless that is read-only, so an export on a
//! stream comes after all work on the memory. An export for the host comes after the last write
//! only, because waiting for reads would block the caller. So a program that writes there must
//! first synchronize the streams that still read (`docs/order.md`).
//!
//! # Fallbacks
//!
//! `transfer.rs` is one call of one hook. `elements.rs` stands above it: strided tensors that a
//! plugin declines are packed on their device, else read with all that lies between (`span.rs`),
//! and written in parts, at last in rows of bytes, which no plugin declines. What lies between
//! elements is never written, since other threads may write it; a byte shared with a packed
//! neighbour is read first (`patch.rs`). No step comes back to one above it. A destination whose
//! own elements overlap is refused before (`Layout::overlapping_axes`). `place.rs` says whether
//! source and destination share bytes: it asks the plugins where the addresses of one plugin say
//! nothing of another's.
//!
//! # Staged copies
//!
//! `stage.rs` waits for earlier work in `order.rs`; then it cuts the copy into parts and moves them by
//! up to eight *workers*: each is a thread that takes a part, reads it into its own chunk of host
//! memory, and writes it from there while it is in that core's cache. So links that work in the
//! caller's thread use all cores, and a driver that takes one part at a time finds the next one
//! waiting. A chunk for each worker is all the extra memory of a copy (`CROSSDOCK_STAGING_BYTES`,
//! 7.5 MiB); chunks are locked for both plugins where both can do that, kept for the next copy, and
//! given back when a plugin retires. Devices of one runtime share them (`devices/shared.rs`); no
//! lock is held while hooks run.
//!
//! On a stream the caller does not wait for them: `stage_on_stream.rs` submits all parts to internal streams of
//! both plugins, and has the proof that no wait among them can last forever. That takes host events and host
//! functions; elsewhere the caller waits, and `explain` says why. The chunks of such a copy are those of a ring
//! (`route_data/ring.rs`), which only the caller's stream uses.

mod content;
pub(crate) mod elements;
pub(crate) mod host_bytes;
pub(crate) mod order;
pub(crate) mod patch;
pub(crate) mod sorted;
pub(crate) mod span;
pub(crate) mod stage;
pub(crate) mod stage_on_stream;
#[cfg(test)]
mod stage_tests;
pub(crate) mod transfer;
pub(crate) mod walk;
mod work_stream;
