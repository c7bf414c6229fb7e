//! The runtime: which plugins and devices there are. A counted handle, and the unit of closing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossdock_layers::Layer;
use crossdock_sdk::dlpack::{self, DeviceType};

use crate::devices::builder::RuntimeBuilder;
use crate::devices::device::Device;
use crate::devices::device_sorting::DeviceOrder;
use crate::devices::index::{DeviceIndex, QueryOrder};
use crate::devices::published::Published;
use crate::devices::registry::{Entry, Ids, Registry};
use crate::devices::shared::Shared;
use crate::error::{DevicesHere, Error, memory_called};
use crate::loader;
use crate::plugin_files::Environment;
use crate::plugins::listing::Listing;
use crate::plugins::open_plugins;
use crate::plugins::plugin::{Plugin, PluginState};
use crate::process::process_state;

/// How long a retiring plugin may drain, in nanoseconds.
const RETIRE_DEADLINE_NS: u64 = 5_000_000_000;

/// A running Crossdock. Clones are the same runtime; plugins are shared by all runtimes of the
/// process.
///
/// ```
/// use crossdock::{Error, Runtime};
/// use crossdock_sdk::dlpack::{Device, DeviceType};
///
/// let runtime = Runtime::builder().search(false).open()?; // the linked-in plugin alone
/// let names: Vec<String> = runtime.devices().iter().map(|device| device.id().to_string()).collect();
/// assert_eq!(names, ["cpu:0"]);
/// assert!(runtime.device(Device::CPU).is_ok());
/// let absent = runtime.device(Device { ty: DeviceType::CUDA, id: 0 });
/// assert!(matches!(absent, Err(Error::UnknownDevice { .. })));
/// # Ok::<(), crossdock::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Runtime(pub(crate) Arc<Inner>);

/// A runtime that is not kept.
#[derive(Debug, Default)]
pub(crate) struct WeakRuntime(Weak<Inner>);

impl WeakRuntime {
    pub(crate) fn upgrade(&self) -> Option<Runtime> {
        self.0.upgrade().map(Runtime)
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// What there is now; readers take no lock.
    pub(crate) registry: Published<Registry>,
    /// The devices of `registry`, to be found fast.
    pub(crate) index: DeviceIndex,
    /// The plugins of these devices, to be asked fast.
    query_order: QueryOrder,
    /// Whether some plugin was not looked at.
    is_any_put_off: AtomicBool,
    pub(crate) environment: Environment,
    /// Around each plugin that this runtime opens.
    pub(crate) layers: Vec<Layer>,
    pub(crate) shared: Arc<Shared>,
    /// Retired here, while memory of theirs may still be given back.
    pub(crate) retired: Mutex<Vec<Weak<Plugin>>>,
    /// The child of a fork must not use it.
    pub(crate) generation: u32,
}

/// Why there is no such device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoDevice {
    /// The plugin is registered here, and has no device with this index.
    OfPlugin,
    /// The plugin is not registered here.
    NotListed,
}

impl Runtime {
    /// A runtime that is not open yet.
    pub const fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// A runtime without a plugin.
    pub(crate) fn start(environment: Environment, layers: Vec<Layer>, shared: Shared) -> Self {
        Self(Arc::new_cyclic(|runtime| Inner {
            registry: Published::default(),
            index: DeviceIndex::default(),
            query_order: QueryOrder::default(),
            is_any_put_off: AtomicBool::new(false),
            shared: Arc::new(shared.of(WeakRuntime(Weak::clone(runtime)))),
            environment,
            layers,
            retired: Mutex::default(),
            generation: process_state::generation(),
        }))
    }

    /// The registered plugins, also those whose devices are absent, and those that nobody needed so far.
    #[must_use]
    pub fn plugins(&self) -> Vec<Arc<Plugin>> {
        let registry = self.0.registry.read();
        let entries = registry.plugins.iter();
        entries
            .map(|entry| Arc::clone(entry.listing.plugin()))
            .collect()
    }

    /// The devices, in the order in which their plugins were registered. Plugins that nobody has looked at
    /// so far ([`PluginState::NotLookedAt`]) are probed and opened for it.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        self.look_at_all();
        self.0.registry.read().devices.clone()
    }

    /// The plugins with devices, for callers that ask all of them. Takes no lock.
    pub(crate) fn query_order(&self) -> &QueryOrder {
        &self.0.query_order
    }

    /// The files that the search found and that could not be loaded.
    #[must_use]
    pub fn refused(&self) -> Vec<Error> {
        self.0.registry.read().refused.clone()
    }

    /// The device with this DLPack pair. Takes no lock, unless plugins that may serve its type are looked at
    /// for the first time: they are probed and opened then.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] with the devices that are here. [`Error::Hook`]: `FORKED`, where a
    /// plugin with such devices was not opened because the parent of this process started its driver, and
    /// [`Error::Forked`] where the parent opened the runtime and nobody had looked at such a plugin.
    #[inline]
    pub fn device(&self, id: dlpack::Device) -> Result<Device, Error> {
        self.find_device(id)?.ok_or_else(|| self.unknown_device(id))
    }

    /// As [`Runtime::device`]; `None` where no plugin offers it.
    #[inline]
    pub(crate) fn find_device(&self, id: dlpack::Device) -> Result<Option<Device>, Error> {
        match self.0.index.find(id) {
            Some(device) => Ok(Some(device)),
            None => self.find_late(id),
        }
    }

    #[cold]
    fn find_late(&self, id: dlpack::Device) -> Result<Option<Device>, Error> {
        // A target of pinned memory means the vendor of it.
        let needed = memory_called(id.ty).map_or(id.ty, |(owner, _)| owner);
        self.look_at(|ty| ty == needed);
        match self.0.index.find(id) {
            Some(device) => Ok(Some(device)),
            None => self.check_not_forked(needed).map(|()| None),
        }
    }

    /// Whether no plugin that may serve this type is kept closed by a fork.
    fn check_not_forked(&self, ty: DeviceType) -> Result<(), Error> {
        let registry = self.0.registry.read();
        for entry in &registry.plugins {
            let plugin = entry.listing.plugin();
            if let Some(error) = plugin.forked_from(ty) {
                return Err(error.clone());
            }
            if !entry.is_enumerated && plugin.serves(ty) {
                self.check_process("open a plugin")?;
            }
        }
        Ok(())
    }

    /// Why there is no such device.
    #[cold]
    pub(crate) fn unknown_device(&self, device: dlpack::Device) -> Error {
        let mut here = self.devices_here();
        let needed = memory_called(device.ty).map_or(device.ty, |(owner, _)| owner);
        let registry = self.0.registry.read();
        let plugins = registry.plugins.iter().map(|entry| entry.listing.plugin());
        here.without_devices = plugins
            .filter(|plugin| plugin.serves(needed))
            .filter_map(|plugin| match plugin.state() {
                PluginState::Absent { detail: why } | PluginState::Broken { why } => {
                    Some((plugin.name().to_owned(), why.clone()))
                }
                _ => None,
            })
            .collect();
        let here = Box::new(here);
        Error::UnknownDevice { device, here }
    }

    /// The devices that are known, and where plugins were looked for, for an error. No plugin is looked at for
    /// it.
    #[must_use]
    pub fn devices_here(&self) -> DevicesHere {
        let registry = self.0.registry.read();
        let later = registry.not_enumerated(|_| true);
        let later = later.iter().map(|plugin| plugin.name().to_owned());
        DevicesHere {
            without_devices: Vec::new(),
            known: registry.devices.iter().map(Device::id).collect(),
            not_looked_at: later.collect(),
            searched: registry.searched.clone(),
            refused: registry.refused.iter().filter_map(Error::file).collect(),
        }
    }

    /// Whether a question for devices may probe and open plugins that nobody needed so far, which starts their
    /// drivers and takes its time. One load.
    #[must_use]
    #[inline]
    pub fn may_start_drivers(&self) -> bool {
        self.0.is_any_put_off.load(Ordering::Acquire)
    }

    /// The first device with this identity. Looks at all plugins, as [`Runtime::devices`] does.
    #[must_use]
    pub fn device_by_uuid(&self, uuid: [u8; 16]) -> Option<Device> {
        self.find(|device| device.uuid() == Some(uuid))
    }

    /// The first device at this place of the PCI bus, as in `0000:03:00.0`. Looks at all plugins, as
    /// [`Runtime::devices`] does.
    #[must_use]
    pub fn device_by_pci(&self, pci_bus_id: &str) -> Option<Device> {
        self.find(|device| {
            let own = device.pci_bus_id();
            own.is_some_and(|own| own.eq_ignore_ascii_case(pci_bus_id))
        })
    }

    /// The device with this index of a registered plugin.
    pub(crate) fn device_of(&self, plugin: &Arc<Plugin>, index: u32) -> Option<Device> {
        self.look_up(plugin, index).ok()
    }

    /// The device with this index of a plugin.
    ///
    /// # Errors
    /// Why there is none, as of the same moment.
    pub(crate) fn look_up(&self, plugin: &Arc<Plugin>, index: u32) -> Result<Device, NoDevice> {
        let registry = self.0.registry.read();
        let mut devices = registry.devices.iter();
        let found = devices.find(|device| device.is_of(plugin) && device.index() == index);
        found.cloned().ok_or_else(|| match registry.has(plugin) {
            true => NoDevice::OfPlugin,
            false => NoDevice::NotListed,
        })
    }

    /// The first device that is it. All plugins are looked at: two may show one device, and who was asked
    /// before does not decide between them.
    fn find(&self, is_it: impl Fn(&Device) -> bool) -> Option<Device> {
        self.look_at_all();
        let registry = self.0.registry.read();
        let mut devices = registry.devices.iter();
        devices.find(|device| is_it(device)).cloned()
    }

    /// Loads a plugin file beside those that are here. The same file is loaded once, whatever its
    /// names are, and so are copies with equal bytes. A plugin that was retired here and that another
    /// runtime still lists comes back, with new devices; one that all have retired is opened anew.
    ///
    /// A plugin whose driver or devices are not here is listed as its probe says. One that cannot be
    /// opened is not, and the next call tries again.
    ///
    /// # Errors
    /// [`Error::Load`] that says why the file was refused; [`Error::Hook`] where it could not be probed
    /// or opened; [`Error::Forked`] in the child of a fork; [`Error::Misuse`] from a plugin that is
    /// being loaded.
    pub fn load(&self, path: &Path) -> Result<Arc<Plugin>, Error> {
        self.check_process("load a plugin")?;
        open_plugins::check_reentry("load a plugin")?;
        let inspect = || loader::inspect(path, &self.0.environment);
        let open = |found| {
            let plugin = loader::load(found, &self.0.layers)?;
            open_plugins::start(&plugin)?;
            plugin.failure().cloned().map_or(Ok(plugin), Err)
        };
        self.load_inspected(inspect()?, inspect, open)
    }

    /// Removes a plugin from this runtime: its devices are gone and take no new work. Other runtimes
    /// keep it, and while one does, tensors on it can still be read. The last one that retires it waits
    /// for a probe or an open that is under way, then drains its work, for at most five seconds. From then
    /// on what needs a hook of it, as reading and copying do, answers `RETIRED`. Its code stays mapped, and
    /// tensors can be dropped at any time.
    ///
    /// # Errors
    /// What the plugin answered, `TIMEOUT` among it; it is removed all the same.
    /// [`Error::Misuse`] for a plugin that is not registered here, and from a plugin that is being loaded;
    /// [`Error::Forked`] in the child of a fork.
    pub fn retire(&self, plugin: &Arc<Plugin>) -> Result<(), Error> {
        const OPERATION: &str = "retire a plugin";
        self.check_process(OPERATION)?;
        open_plugins::check_reentry(OPERATION)?;
        // Before it is taken out: a wait for releases finds it in one of the two lists.
        self.retired().push(Arc::downgrade(plugin));
        let Some(listing) = self.change(|registry| self.take_out(registry, plugin)) else {
            let mut retired = self.retired();
            let at = retired
                .iter()
                .rposition(|one| std::ptr::eq(one.as_ptr(), Arc::as_ptr(plugin)));
            at.map(|at| retired.remove(at));
            let why = format!(
                "`{}` is not registered in this runtime: retire it where it is",
                plugin.name()
            );
            return Err(Error::misuse(OPERATION, why));
        };
        self.0.shared.chunks().forget(plugin);
        if !listing.retire() {
            return Ok(());
        }
        plugin.never_start();
        match plugin.state() {
            PluginState::Ready => plugin.hooks().retire(RETIRE_DEADLINE_NS),
            _ => Ok(()),
        }
    }

    /// Takes a plugin and its devices out of the registry and the indexes.
    pub(crate) fn take_out(
        &self,
        registry: &mut Registry,
        plugin: &Arc<Plugin>,
    ) -> Option<Arc<Listing>> {
        let mut entries = registry.plugins.iter();
        let at = entries.position(|entry| entry.listing.is_of(plugin))?;
        let Entry { listing, .. } = registry.plugins.remove(at);
        for device in registry
            .devices
            .extract_if(.., |device| device.is_of(plugin))
        {
            device.listed().end();
        }
        self.0.index.retire(|device| device.is_of(plugin));
        self.0.query_order.retire(plugin);
        Some(listing)
    }

    /// The plugins that were retired here and are still open.
    pub(crate) fn retired(&self) -> MutexGuard<'_, Vec<Weak<Plugin>>> {
        let mut retired = self
            .0
            .retired
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        retired.retain(|plugin| plugin.strong_count() > 0);
        retired
    }

    /// Whether this process opened the runtime: any lock of an inherited one may be held for ever.
    pub(crate) fn check_process(&self, operation: &'static str) -> Result<(), Error> {
        if self.0.generation == process_state::generation() {
            Ok(())
        } else {
            Err(Error::Forked { operation })
        }
    }

    /// Numbers all devices anew. Nobody has one yet.
    pub(crate) fn number(&self, order: &DeviceOrder) {
        // Any of them may have what the order names.
        self.look_at_all();
        self.change(|registry| {
            for warning in order.unmatched(&registry.devices) {
                log::warn!(target: "crossdock::load", "{warning}");
            }
            self.0.index.retire(|_| true);
            let mut ids = Ids::default();
            for (device, named) in order.sort(&std::mem::take(&mut registry.devices)) {
                let claimed = if named { 0 } else { device.claimed_id() };
                let id = ids.take(device.id().ty, claimed);
                registry.devices.push(device.with_id(id));
            }
        });
    }

    /// Changes what is listed. The indexes follow what was published: who finds a device finds its plugin
    /// among those that are asked for owners, and what these say of their devices in the registry.
    pub(crate) fn change<R>(&self, edit: impl FnOnce(&mut Registry) -> R) -> R {
        self.0.registry.change(edit, |registry| {
            for device in &registry.devices {
                self.0.query_order.add(device.plugin());
            }
            self.0.index.add(&registry.devices);
            let is_any_put_off = registry.is_any_put_off();
            // At the end: who sees none finds the devices of all.
            self.0
                .is_any_put_off
                .store(is_any_put_off, Ordering::Release);
        })
    }
}

#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;
