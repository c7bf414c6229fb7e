//! The staged route: host memory in chunks, and lanes that keep both links busy.

mod chunk;
mod chunks;
mod stage;

#[cfg(test)]
mod tests;

pub(crate) use chunks::Chunks;
pub(crate) use stage::stage;
