//! Plugins for the tests of this crate, each opened from a table of its own.

pub(crate) mod test_plugin;
pub(crate) mod test_plugin_memory;
pub(crate) mod test_plugin_streams;
