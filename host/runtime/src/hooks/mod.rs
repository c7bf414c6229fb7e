//! One open plugin's hooks, called safely.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `plugin_hooks` | how every hook is called: missing ones, errors, panics, exit and fork |
//! | `memory_hooks`, `stream_hooks` | the hooks of memory, and of streams and events |
//! | `waits` | waits inside a plugin, in slices |

pub(crate) mod memory_hooks;
pub(crate) mod plugin_hooks;
pub(crate) mod stream_hooks;
pub(crate) mod waits;
