//! How a tensor becomes another device's.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `route` | the choice: alias, direct, staged, or refused with every reason |
//! | `plan`, `way` | which ways there are, the cheapest first |
//! | `tensor_order` | the calls of tensors with a stream |

pub(crate) mod plan;
pub(crate) mod route;
pub(crate) mod tensor_order;
pub(crate) mod way;
