//! Plugins for the tests of this crate, each opened from a table of its own.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `test_plugin` | how a test starts a plugin |
//! | `test_plugin_memory`, `test_plugin_streams` | plugins whose hooks of memory, and of streams, a test sets |

pub(crate) mod test_plugin;
pub(crate) mod test_plugin_memory;
pub(crate) mod test_plugin_streams;
