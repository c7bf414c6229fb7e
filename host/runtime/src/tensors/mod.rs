//! Tensors, and the memory that they view.

pub(crate) mod calls;
#[cfg(all(test, loom))]
mod calls_loom_tests;
pub(crate) mod counted;
pub(crate) mod foreign;
pub(crate) mod inherited;
pub(crate) mod live_objects;
pub(crate) mod memory;
pub(crate) mod object_memory;
pub(crate) mod owner;
pub(crate) mod pending;
#[cfg(test)]
mod pending_tests;
pub(crate) mod place;
pub(crate) mod registration;
pub(crate) mod release;
pub(crate) mod target;
pub(crate) mod tensor;
