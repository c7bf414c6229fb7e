//! A device: one entry of one plugin, under the DLPack pair by which the outside addresses it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, Weak};

use crossdock_sdk::abi::{
    AddressForm, Capabilities, DeviceInfo, MemoryInfo, MemoryKind, MemoryUsage, Status,
};
use crossdock_sdk::dlpack::{self, DeviceType};
use crossdock_sdk::plugin::read_fixed_text;

use crate::devices::shared::Shared;
use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::plugins::listing::Listed;
use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;

/// A device of a registered plugin; cheap to clone. Two are equal when they are the same device of
/// the same open plugin.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

/// What a device is, without the inside of its plugin: events and streams of it are shown too.
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("id", &self.0.id)
            .field("name", &self.0.name)
            .field("plugin", &self.0.own.plugin.name())
            .finish_non_exhaustive()
    }
}

/// A device that keeps neither itself nor its plugin alive.
#[derive(Debug)]
pub(crate) struct WeakDevice(Weak<Inner>);

impl WeakDevice {
    #[inline]
    pub(crate) fn upgrade(&self) -> Option<Device> {
        self.0.upgrade().map(Device)
    }

    /// As [`Device::identity`].
    pub(crate) fn identity(&self) -> *const () {
        self.0.as_ptr().cast()
    }
}

struct Inner {
    id: dlpack::Device,
    own: PluginDevice,
    name: String,
    pci_bus_id: String,
    driver_version: String,
    runtime_version: String,
    /// Whether its plugin maps its memory, or why not, once that was tried.
    maps: OnceLock<Result<(), Arc<str>>>,
    shared: Arc<Shared>,
}

impl Device {
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        index: u32,
        id: dlpack::Device,
        info: DeviceInfo,
        shared: &Arc<Shared>,
    ) -> Self {
        Self(Arc::new(Inner {
            id,
            own: PluginDevice::new(plugin, index, info),
            shared: Arc::clone(shared),
            name: read_fixed_text(&info.name),
            pci_bus_id: read_fixed_text(&info.pci_bus_id),
            driver_version: read_fixed_text(&info.driver_version),
            runtime_version: read_fixed_text(&info.runtime_version),
            maps: OnceLock::new(),
        }))
    }

    pub(crate) fn downgrade(&self) -> WeakDevice {
        WeakDevice(Arc::downgrade(&self.0))
    }

    /// Which object it is: the same device of the plugin may be several. No other has it while a weak one lives.
    pub(crate) fn identity(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    /// The same device under another pair.
    pub(crate) fn with_id(&self, id: dlpack::Device) -> Self {
        let own = self.in_plugin();
        Self::new(&own.plugin, own.index, id, own.info, &self.0.shared)
    }

    /// The id that its plugin asks for.
    pub(crate) fn claimed_id(&self) -> i32 {
        self.0.own.info.dl_id
    }

    /// The DLPack pair: `opencl:0`.
    #[must_use]
    #[inline]
    pub fn id(&self) -> dlpack::Device {
        self.0.id
    }

    /// The DLPack pair of its memory of this kind: `cuda_host:0`. Kinds that DLPack has no name for
    /// here are the device's own.
    pub(crate) fn id_of(&self, kind: MemoryKind) -> dlpack::Device {
        let named = match kind {
            MemoryKind::PINNED => self.0.own.info.pinned_dl_type,
            MemoryKind::MANAGED => self.0.own.info.managed_dl_type,
            _ => 0,
        };
        match named {
            0 => self.0.id,
            // DLPack numbers none but the devices themselves.
            named => DeviceType::from_raw(named).device(0),
        }
    }

    /// Its index in its plugin.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.0.own.index
    }

    /// Its name for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its identity across processes, where it has one.
    #[must_use]
    pub fn uuid(&self) -> Option<[u8; 16]> {
        (self.0.own.info.uuid != [0; 16]).then_some(self.0.own.info.uuid)
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

    /// What its plugin says of it, with the pair under which it is registered here.
    #[must_use]
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo {
            dl_type: self.0.id.ty.raw(),
            dl_id: self.0.id.id,
            ..self.0.own.info
        }
    }

    /// What works on it.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.0.own.info.capabilities
    }

    /// Whether streams of it wait for events that the host completes. Not every driver lets a plugin make those that it
    /// has hooks for.
    pub(crate) fn has_host_events(&self) -> bool {
        let has_hooks = self.hooks().table().host_events().is_some();
        has_hooks && self.capabilities().contains(Capabilities::HOST_EVENTS)
    }

    /// All its memory in bytes.
    #[must_use]
    pub fn total_memory(&self) -> u64 {
        self.0.own.info.total_memory
    }

    /// Its memory now, in bytes.
    ///
    /// # Errors
    /// What the plugin answered.
    pub fn memory(&self) -> Result<MemoryInfo, Error> {
        self.hooks().memory_info(self.0.own.index)
    }

    /// Gives back memory that was freed and is kept for later: by its plugin, until at most `keep` bytes
    /// of that are left, and by this runtime, whose idle host memory for staged copies goes whatever
    /// `keep` is, but for what other devices have locked and this one has not.
    ///
    /// It waits for no work that Crossdock knows of. Memory that is dropped while work uses it is freed later and may be kept
    /// then: [`Runtime::wait_for_releases`](crate::Runtime::wait_for_releases) comes first where that is
    /// to go too. A plugin without hooks for it keeps nothing that could go.
    ///
    /// # Errors
    /// What the plugin answered.
    pub fn trim(&self, keep: u64) -> Result<(), Error> {
        // In the child of a fork the chunks are the parent's, and their lock may be held for ever.
        self.hooks().check_called("memory_trim")?;
        self.shared().chunks().trim(self.in_plugin());
        if self.hooks().table().pool().is_none() {
            return Ok(());
        }
        self.hooks().memory_trim(self.0.own.index, keep)
    }

    /// What its plugin has of its memory, for all runtimes of the process; `u64::MAX` for a number that
    /// the plugin does not know.
    ///
    /// # Errors
    /// What the plugin answered.
    pub fn memory_usage(&self) -> Result<MemoryUsage, Error> {
        if self.hooks().table().pool().is_none() {
            return Ok(MemoryUsage::UNKNOWN);
        }
        self.hooks().memory_usage(self.0.own.index)
    }

    /// Begins the peaks of [`Self::memory_usage`] anew, for all who ask. Where the plugin knows none there
    /// is nothing to begin.
    ///
    /// # Errors
    /// What the plugin answered.
    pub fn reset_peaks(&self) -> Result<(), Error> {
        if self.hooks().table().pool().is_none() {
            return Ok(());
        }
        self.hooks().memory_reset_peaks(self.0.own.index)
    }

    /// The plugin that offers it.
    #[must_use]
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.0.own.plugin
    }

    /// Whether its runtime still offers it; a clone keeps nothing alive.
    pub(crate) fn listed(&self) -> &Listed {
        &self.0.own.listed
    }

    /// Refuses a kind of memory that nobody allocates here, or that this device does not offer.
    ///
    /// # Errors
    /// [`Error::Misuse`]; [`Error::Hook`]: `UNSUPPORTED`.
    pub(crate) fn check_offers(&self, kind: MemoryKind) -> Result<(), Error> {
        let (needed, name) = match kind {
            MemoryKind::DEVICE => return Ok(()),
            MemoryKind::PINNED => (Capabilities::PINNED, "pinned"),
            MemoryKind::MANAGED => (Capabilities::MANAGED, "managed"),
            MemoryKind(kind) => {
                let why =
                    format!("memory of kind {kind} is not device (1), pinned (2) or managed (3)");
                return Err(Error::misuse("allocate a tensor", why));
            }
        };
        if self.capabilities().contains(needed) {
            return Ok(());
        }
        let message = format!("`{self}` offers no {name} memory");
        Err(self.refusal("allocate", Status::UNSUPPORTED, message))
    }

    /// What its plugin would have answered.
    pub(crate) fn refusal(&self, operation: &str, status: Status, message: String) -> Error {
        Error::Hook {
            plugin: self.plugin().name().to_owned(),
            operation: operation.to_owned(),
            status,
            native_code: 0,
            native_name: String::new(),
            message,
        }
    }

    /// Refuses new work on a device that its runtime has retired, in the plugin's words: other
    /// runtimes may use the plugin still.
    ///
    /// # Errors
    /// [`Error::Hook`]: `RETIRED`.
    pub(crate) fn check_listed(&self, operation: &str) -> Result<(), Error> {
        if self.listed().is_listed() {
            return Ok(());
        }
        let message = format!("`{}` was retired in this runtime", self.plugin().name());
        Err(self.refusal(operation, Status::RETIRED, message))
    }

    /// Whether its plugin maps memory that is allocated here, once somebody found out.
    pub(crate) fn known_to_map(&self) -> &OnceLock<Result<(), Arc<str>>> {
        &self.0.maps
    }

    /// Whether this plugin offers it.
    pub(crate) fn is_of(&self, plugin: &Arc<Plugin>) -> bool {
        Arc::ptr_eq(&self.0.own.plugin, plugin)
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        self.0.own.plugin.hooks()
    }

    /// The same without its pair and its runtime.
    pub(crate) fn in_plugin(&self) -> &PluginDevice {
        &self.0.own
    }

    /// What the devices of its runtime share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Whether the host can dereference the addresses of device memory that is allocated here. What it
    /// reaches of memory that exists, that memory says ([`Memory::reach`](crate::tensors::memory::Memory::reach)).
    pub(crate) fn is_host_accessible(&self) -> bool {
        self.0.own.info.address_form == AddressForm::POINTER
            && self.capabilities().contains(Capabilities::HOST_ACCESSIBLE)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.own.plugin, &other.0.own.plugin)
            && self.0.own.index == other.0.own.index
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0.own.plugin).hash(state);
        self.0.own.index.hash(state);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.id.fmt(f)
    }
}
