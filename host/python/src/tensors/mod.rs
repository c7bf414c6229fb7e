//! The class Tensor: what it is, its views, its elements, and where it moves.

pub(crate) mod content;
pub(crate) mod memory_owner;
pub(crate) mod moving;
pub(crate) mod own_work;
pub(crate) mod registration;
pub(crate) mod tensor;
pub(crate) mod views;
