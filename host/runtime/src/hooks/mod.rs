//! This room calls the hooks of one open plugin safely.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `plugin_hooks` | how every hook is called: missing ones, errors, panics, exit and fork |
//! | `memory_hooks`, `stream_hooks`, `peer_hooks` | the hooks of memory, of streams and events, of links |
//! | `host_services` | what the host offers plugins |
//! | `host_memory` | host memory as hooks take it |
//! | `panics` | which hooks panicked, and that what they were given is leaked |
//! | `waits` | waits inside a plugin, in slices |
//! | `weak_list` | weak references to those of a kind that are alive |
//!
//! # After a panic
//!
//! An error of a hook has begun nothing, by contract; after a panic nobody knows, and what the
//! hook was given is leaked and counted (`hooks/panics.rs`): tensors, and the host memory that a
//! read or a staged copy lends. Bytes of the caller's own (`Tensor::read_into`) are the caller's
//! to keep. Waiters for the plugin are told (`Hooks::watch_quarantine`), since it may never come
//! to the event. A thread inside a hook hears of no panic of another hook, so a wait is made in
//! slices of at most a second (`waits.rs`), and each slice is a new call, which is refused once
//! the plugin is not called any more. Hooks that have no limit, such as a copy without a stream,
//! may stand in a hardware queue behind a host event. So host events are still completed after a
//! panic, as failures, the one exception to calling the plugin no more: at the time at which they
//! would be anyway, since what waits for them may write what other plugins still read.

pub(crate) mod host_memory;
pub(crate) mod host_services;
pub(crate) mod memory_hooks;
pub(crate) mod panics;
pub(crate) mod peer_hooks;
pub(crate) mod plugin_hooks;
pub(crate) mod stream_hooks;
pub(crate) mod waits;
pub(crate) mod weak_list;
