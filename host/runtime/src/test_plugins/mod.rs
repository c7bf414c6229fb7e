//! Plugins for the tests of this crate.

#[cfg(test)]
pub(crate) mod test_plugin;
#[cfg(test)]
pub(crate) mod test_plugin_memory;
#[cfg(test)]
pub(crate) mod test_plugin_streams;
