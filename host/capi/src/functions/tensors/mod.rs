//! The functions of `xd_tensor`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `tensor` | made, described, moved and given back |
//! | `exchange` | in and out: as DLPack, and as memory with an owner |
//! | `data`, `order`, `views` | the elements, the order of work on it, parts of it |

pub(crate) mod data;
pub(crate) mod exchange;
pub(crate) mod order;
pub(crate) mod tensor;
pub(crate) mod views;
