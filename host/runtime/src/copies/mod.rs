//! Bytes from here to there.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `order` | what work has to wait for: every copy is made through it |
//! | `transfer` | one hook call |
//! | `content` | the calls of tensors that read and write bytes |
//! | `elements` | elements of any layout, by the fewest steps that the plugins can make |
//! | `span`, `sorted`, `patch`, `walk` | the last of these steps: by bytes on the host |
//! | `host_bytes` | host memory of a size that others choose: an error where there is too little |

mod content;
pub(crate) mod elements;
pub(crate) mod host_bytes;
pub(crate) mod order;
pub(crate) mod patch;
pub(crate) mod sorted;
pub(crate) mod span;
pub(crate) mod transfer;
pub(crate) mod walk;
