//! What the devices of a runtime share for moving tensors.

pub(crate) mod costs;
pub(crate) mod shared;
pub(crate) mod staging;
