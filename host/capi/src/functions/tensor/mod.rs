//! Tensors.

pub(crate) mod data;
pub(crate) mod exchange;
pub(crate) mod order;
pub(crate) mod tensor;
pub(crate) mod views;
