//! A device: one entry of one plugin, under the DLPack pair by which the outside addresses it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crossdock_sdk::abi::{AddressForm, Capabilities, DeviceInfo, MemoryInfo};
use crossdock_sdk::dlpack;
use crossdock_sdk::plugin::read_fixed_text;

use crate::error::Error;
use crate::hooks::Hooks;
use crate::plugin::Plugin;

/// A device of a registered plugin; cheap to clone. Two are equal when they are the same device of
/// the same open plugin.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: dlpack::Device,
    index: u32,
    plugin: Arc<Plugin>,
    info: DeviceInfo,
    name: String,
    pci_bus_id: String,
    driver_version: String,
    runtime_version: String,
}

impl Device {
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        index: u32,
        id: dlpack::Device,
        info: DeviceInfo,
    ) -> Self {
        Self(Arc::new(Inner {
            id,
            index,
            plugin: Arc::clone(plugin),
            name: read_fixed_text(&info.name),
            pci_bus_id: read_fixed_text(&info.pci_bus_id),
            driver_version: read_fixed_text(&info.driver_version),
            runtime_version: read_fixed_text(&info.runtime_version),
            info,
        }))
    }

    /// The DLPack pair: `opencl:0`.
    #[must_use]
    pub fn id(&self) -> dlpack::Device {
        self.0.id
    }

    /// Its index in its plugin.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// Its name for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its identity across processes, where it has one.
    #[must_use]
    pub fn uuid(&self) -> Option<[u8; 16]> {
        (self.0.info.uuid != [0; 16]).then_some(self.0.info.uuid)
    }

    /// Its place on the PCI bus, where it has one.
    #[must_use]
    pub fn pci_bus_id(&self) -> Option<&str> {
        (!self.0.pci_bus_id.is_empty()).then_some(self.0.pci_bus_id.as_str())
    }

    /// The driver's version, or empty.
    #[must_use]
    pub fn driver_version(&self) -> &str {
        &self.0.driver_version
    }

    /// The runtime's version, or empty.
    #[must_use]
    pub fn runtime_version(&self) -> &str {
        &self.0.runtime_version
    }

    /// What works on it.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.0.info.capabilities
    }

    /// All its memory in bytes.
    #[must_use]
    pub fn total_memory(&self) -> u64 {
        self.0.info.total_memory
    }

    /// Its memory now, in bytes.
    ///
    /// # Errors
    /// What the plugin answered.
    pub fn memory(&self) -> Result<MemoryInfo, Error> {
        self.hooks().memory_info(self.0.index)
    }

    /// The plugin that offers it.
    #[must_use]
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.0.plugin
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        self.0.plugin.hooks()
    }

    /// Whether the host can dereference this device's addresses.
    pub(crate) fn is_host_accessible(&self) -> bool {
        self.0.info.address_form == AddressForm::POINTER
            && self.capabilities().contains(Capabilities::HOST_ACCESSIBLE)
    }

    pub(crate) fn address_form(&self) -> AddressForm {
        self.0.info.address_form
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.plugin, &other.0.plugin) && self.0.index == other.0.index
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0.plugin).hash(state);
        self.0.index.hash(state);
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.id.fmt(f)
    }
}
