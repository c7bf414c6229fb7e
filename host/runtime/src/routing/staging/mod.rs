//! The staged route: host memory in chunks, and workers that keep both links busy.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stage` | the copy: it waits for earlier work in `copies/order.rs`; then each part is copied synchronously |
//! | `chunk`, `chunks` | a piece of pinned host memory, and those that are idle |

mod chunk;
mod chunks;
mod stage;

#[cfg(test)]
mod tests;

pub(crate) use chunks::Chunks;
pub(crate) use stage::stage;
