//! The plugins that are open in the process, and what each of them keeps.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `plugin` | a loaded plugin: probed and opened at its first need |
//! | `open_plugins` | all that are open in the process; they are told of exit and fork |
//! | `listing` | which runtimes list a plugin |
//! | `plugin_device` | a device of a plugin, before a runtime numbers it |
//! | `stream_core`, `live_streams` | a stream as its plugin knows it, and those that are alive |
//! | `ended_streams` | streams without a handle whose work still runs |
//! | `pending_events` | events of the runtime's own that may be pending |
//! | `internal_streams` | the pool of streams that the runtime makes for itself |
//! | `live_objects` | native objects that are alive, with their memory |
//! | `releases`, `stream_frees` | what is given back once no work uses it; what streams were told to free |
//! | `tellers` | whether a stream may have told of a failure |
//! | `lost_devices` | lost devices, with the call that noticed |
//! | `peer_links` | what is known of the links between its devices |
//! | `poller` | the thread that polls for what nothing notifies the host of |
//! | `workers` | the threads that act when work is over, and poll what they wait for |
//! | `float_mode`, `signals` | what is kept over a plugin's code |
//!
//! Loading and opening a file leave the thread's floating-point mode as it was (`float_mode.rs`).
//! They also leave the host's signal handlers, except those for faults, and the default of signals
//! that end a process (`signals.rs`); no other hook is guarded so. A plugin that opens a runtime
//! while it is being loaded is told so.

pub(crate) mod ended_streams;
mod float_mode;
pub(crate) mod internal_streams;
pub(crate) mod listing;
pub(crate) mod live_objects;
mod live_streams;
pub(crate) mod lost_devices;
pub(crate) mod open_plugins;
pub(crate) mod peer_links;
pub(crate) mod pending_events;
pub(crate) mod plugin;
pub(crate) mod plugin_device;
pub(crate) mod poller;
pub(crate) mod releases;
mod signals;
pub(crate) mod stream_core;
pub(crate) mod stream_frees;
#[cfg(all(test, loom))]
mod stream_frees_loom_tests;
pub(crate) mod tellers;
pub(crate) mod workers;
