//! This room holds tensors, the memory that they view, and how that is given back.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `tensor`, `target` | a typed view of memory on one device; where it may go |
//! | `reinterpretation` | views of the same bytes as other elements; read-only views |
//! | `memory` | memory with an owner |
//! | `allocate` | new memory of a device |
//! | `owner`, `foreign` | what keeps a memory's bytes; deleters of others, none of which begins once the process exits |
//! | `calls` | calls that use a memory now |
//! | `object_memory` | native objects of others, and those that are alive |
//! | `registration`, `unlocking` | host memory that is locked for a device; the end of the lock |
//! | `claim` | memory that others call the host's, checked before it is first used |
//! | `reach` | how others reach a memory |
//! | `place`, `inherited` | whether two tensors share bytes; memory in the child of a fork |
//!
//! # Releases
//!
//! Dropping memory never waits, and makes nobody else wait: it is given back at once
//! where all work is over; freed in order (`free_async`) by a stream that already waits for all
//! of the work, where there is one and the plugin can; else when its last event happened
//! (`plugins/releases.rs`). `wait_for_releases` waits for all of them, and for those that begin inside of
//! them: what keeps memory of another plugin, or a view of a view, is given back in steps, which
//! have one number. That a stream has freed memory the runtime learns by an event behind the
//! free, which is recorded when somebody waits, or when the stream is dropped
//! (`stream_frees.rs`). A device's view of memory that is dropped while a call uses the memory
//! ends with the last such call (`calls.rs`), since what the call submits is not entered yet. So
//! does one that waited for work while others put more work on the memory: it waits for that as
//! well. Work that the host does not know, through another tensor of the same bytes, keeps a
//! registration: its plugin reports that, and the polling thread ends it later (`unlocking.rs`).
//! A release that is dropped without having been run is leaked and counted, so no path
//! can forget it. Readiness of a producer's work (`ready_on`) orders later uses of a tensor, and
//! holds up no release of the producer's memory, which the producer keeps until then. Memory and
//! views that are this library's to give back outlive that work.
//!
//! *One memory for all tensors of a native object.* Adopting an object that a tensor here already
//! uses gives a view of that tensor's memory, with its owner and its outstanding work. So does
//! adopting a part of one, which counts as lying anywhere in it (`plugins/live_objects.rs`, by the same
//! rules as streams). The plugin says by `allocation_id` that a part and its whole are one. An
//! object that was made here and whose memory is being given back is refused. A reference that
//! others count does not keep it: an object over memory of the host lives as long as its tensors.
//!
//! # Inherited memory
//!
//! Inherited host memory is memory of others on the child's own `cpu:0` (`inherited.rs`):
//! `Tensor::memory` gives it in the place of what the tensor was made with, one for all its views
//! and aliases, so that their work keeps its order. Where work on it was not known to be over at
//! the fork (the plugin cannot be asked any more), or where a driver has a share in it, the
//! tensor stays the parent's and answers `FORKED`: a driver's memory may be shared with the
//! parent or absent in the child. Memory of plugins without one is private, by contract.

mod allocate;
pub(crate) mod calls;
#[cfg(all(test, loom))]
mod calls_loom_tests;
pub(crate) mod claim;
pub(crate) mod foreign;
pub(crate) mod inherited;
pub(crate) mod memory;
pub(crate) mod object_memory;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod reach;
pub(crate) mod registration;
mod reinterpretation;
pub(crate) mod target;
pub(crate) mod tensor;
mod unlocking;
