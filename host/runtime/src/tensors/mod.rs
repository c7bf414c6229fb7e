//! Tensors, and the memory that they view.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `tensor`, `target` | a typed view of memory on one device; where it may go |
//! | `memory`, `counted` | memory with an owner; the pointer that counts it |
//! | `allocate` | new memory of a device |
//! | `owner`, `foreign` | what keeps a memory's bytes; deleters of others, none of which begins once the process exits |
//! | `calls` | calls that use a memory now |
//! | `object_memory`, `live_objects` | native objects of others, and those that are alive |
//! | `registration` | host memory that is locked for a device |
//! | `claim` | memory that others call the host's, checked before it is first used |
//! | `reach` | how others reach a memory |
//! | `place`, `inherited` | whether two tensors share bytes; memory in the child of a fork |

mod allocate;
pub(crate) mod calls;
#[cfg(all(test, loom))]
mod calls_loom_tests;
pub(crate) mod claim;
pub(crate) mod counted;
pub(crate) mod foreign;
pub(crate) mod inherited;
pub(crate) mod live_objects;
pub(crate) mod memory;
pub(crate) mod object_memory;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod reach;
pub(crate) mod registration;
pub(crate) mod target;
pub(crate) mod tensor;
