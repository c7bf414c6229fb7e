//! This room moves a tensor to another device.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `route` | the choice: alias, direct, staged, or refused with every reason |
//! | `explanation` | what a route says of itself: data, and its sentences |
//! | `plan`, `way` | which ways there are, the cheapest first |
//! | `measure` | how copies are timed |
//! | `peer_link` | the link between two devices of one plugin, proved before it is used |
//! | `tensor_order` | the calls of tensors with a stream |
//!
//! `route.rs` takes an alias where there can be one: same device, or the destination adopts
//! memory that the host sees (a device's, or pinned and managed memory of others, whose kind
//! DLPack calls a device: `Tensor::dlpack_device`), or the source maps its memory for the host,
//! or both: what the source shows the host, the destination adopts (the view between them is of
//! the built-in `cpu:0`, `host_device.rs`). A plugin's own pinned or managed memory is none of
//! the host's to another device of the same plugin, which is asked to copy it. Else `plan.rs`
//! orders the ways of `way.rs` by cost and takes the first that no plugin declines. *Direct*: the
//! plugin of the source or of the destination copies, where it reaches both sides; a strided
//! tensor that it cannot copy is packed on the tensor's device first. Whether two devices of one
//! plugin may copy so, `peer_link.rs` says where the plugin has links. *Packed*: the same, but a
//! strided tensor is always packed first, because the costs say that this is cheaper. *Staged*:
//! through host memory.

pub(crate) mod explanation;
mod measure;
#[cfg(test)]
mod measure_tests;
mod peer_link;
pub(crate) mod plan;
pub(crate) mod route;
pub(crate) mod tensor_order;
pub(crate) mod way;
