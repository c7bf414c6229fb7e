//! One open plugin's hooks, called safely.

pub(crate) mod memory_hooks;
pub(crate) mod plugin_hooks;
pub(crate) mod stream_hooks;
pub(crate) mod waits;
