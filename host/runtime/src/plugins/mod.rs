//! The plugins that are open in the process, and what each of them keeps.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `plugin` | a loaded plugin: probed and opened at its first need |
//! | `open_plugins` | all that are open in the process; they are told of exit and fork |
//! | `listing` | which runtimes list a plugin |
//! | `float_mode`, `signals` | what is kept over a plugin's code |
//!
//! Loading and opening a file leave the thread's floating-point mode as it was (`float_mode.rs`).
//! They also leave the host's signal handlers, except those for faults, and the default of signals
//! that end a process (`signals.rs`); no other hook is guarded so. A plugin that opens a runtime
//! while it is being loaded is told so.

mod float_mode;
pub(crate) mod listing;
pub(crate) mod open_plugins;
pub(crate) mod plugin;
mod signals;
