//! The staged route: host memory in chunks, and the two links that are busy at the same time.

mod chunk;
mod chunks;
mod stage;

#[cfg(test)]
mod tests;

pub(crate) use chunks::Chunks;
pub(crate) use stage::stage;
