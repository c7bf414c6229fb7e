//! How a tensor becomes another device's.

pub(crate) mod plan;
pub(crate) mod route;
pub(crate) mod tensor_order;
pub(crate) mod way;
