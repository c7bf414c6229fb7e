//! The class `Tensor`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `tensor` | what it is |
//! | `views`, `content`, `moving` | its parts, its elements, and other devices |
//! | `memory_owner`, `registration` | memory of a Python object; host memory that is locked for a device |
//! | `own_work` | work of the caller's own on a stream |

pub(crate) mod content;
pub(crate) mod memory_owner;
pub(crate) mod moving;
pub(crate) mod own_work;
pub(crate) mod registration;
pub(crate) mod tensor;
pub(crate) mod views;
