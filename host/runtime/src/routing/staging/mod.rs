//! The staged route: host memory in chunks, and workers that keep both links busy.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stage` | the copy: it waits for earlier work in `copies/order.rs`; then each part is copied synchronously |
//! | `chunk`, `chunks` | a piece of pinned host memory, and those that are idle |
//!
//! `staging` cuts a staged copy into parts and moves them by up to eight *workers*: each is a
//! thread that takes a part, reads it into its own chunk of host memory, and writes it from there
//! while it is in that core's cache. So links that work in the caller's thread use all cores, and
//! a driver that takes one part at a time finds the next one waiting. A chunk for each worker is
//! all the extra memory of a copy (`CROSSDOCK_STAGING_BYTES`, 8 MiB); chunks are locked for both
//! devices where both can do that, kept for the next copy, and given back when a plugin retires.
//! Devices of one runtime share costs and chunks through `routing/shared.rs`; no lock is held
//! while hooks run.

mod chunk;
mod chunks;
mod stage;

#[cfg(test)]
mod tests;

pub(crate) use chunks::Chunks;
pub(crate) use stage::stage;
