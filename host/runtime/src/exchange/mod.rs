//! Tensors of others, in.

pub(crate) mod import;
