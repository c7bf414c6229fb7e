//! One open plugin's hooks, called safely.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `plugin_hooks` | how every hook is called: missing ones, errors, panics, exit and fork |
//! | `memory_hooks`, `stream_hooks` | the hooks of memory, and of streams and events |
//! | `panics` | which hooks panicked, and that what they were given is leaked |
//! | `waits` | waits inside a plugin, in slices |

pub(crate) mod memory_hooks;
pub(crate) mod panics;
pub(crate) mod plugin_hooks;
pub(crate) mod stream_hooks;
pub(crate) mod waits;
