//! A device of an open plugin, before a runtime gives it the pair by which the outside addresses it.

use std::sync::Arc;

use crossdock_sdk::abi::{Capabilities, DeviceInfo};

use crate::hooks::plugin_hooks::Hooks;
use crate::plugins::listing::Listed;
use crate::plugins::plugin::Plugin;

/// A device of an open plugin.
#[derive(Debug)]
pub(crate) struct PluginDevice {
    pub(crate) plugin: Arc<Plugin>,
    /// Its index in the plugin.
    pub(crate) index: u32,
    /// What the plugin says of it.
    pub(crate) info: DeviceInfo,
    /// Whether the runtime that has it still offers it.
    pub(crate) listed: Listed,
}

impl PluginDevice {
    pub(crate) fn new(plugin: &Arc<Plugin>, index: u32, info: DeviceInfo) -> Self {
        Self {
            plugin: Arc::clone(plugin),
            index,
            info,
            listed: Listed::default(),
        }
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        self.plugin.hooks()
    }

    /// What works on it.
    pub(crate) const fn capabilities(&self) -> Capabilities {
        self.info.capabilities
    }
}
