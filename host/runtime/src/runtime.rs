//! The runtime: which plugins and devices there are. A counted handle, and the unit of closing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crossdock_sdk::abi::DeviceInfo;
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::dlpack::{self, DeviceType};

use crate::builder::RuntimeBuilder;
use crate::device::Device;
use crate::device_order::DeviceOrder;
use crate::error::Error;
use crate::index::{DeviceIndex, PluginIndex};
use crate::layers::Layer;
use crate::life;
use crate::listing::Listing;
use crate::loader::{self, Environment, Preflight};
use crate::opened;
use crate::plugin::{Plugin, PluginState};
use crate::published::Published;
use crate::release;
use crate::routing::Routing;

/// How long a retiring plugin may drain, in nanoseconds.
const RETIRE_DEADLINE_NS: u64 = 5_000_000_000;

/// A running Crossdock. Clones are the same runtime; plugins are shared by all runtimes of the
/// process.
#[derive(Debug, Clone)]
pub struct Runtime(Arc<Inner>);

/// A runtime that is not kept.
#[derive(Debug, Default)]
pub(crate) struct WeakRuntime(Weak<Inner>);

impl WeakRuntime {
    pub(crate) fn upgrade(&self) -> Option<Runtime> {
        self.0.upgrade().map(Runtime)
    }
}

#[derive(Debug)]
struct Inner {
    /// What there is now; readers take no lock.
    registry: Published<Registry>,
    /// The devices of `registry`, to be found fast.
    index: DeviceIndex,
    /// The plugins of these devices, to be asked fast.
    asked: PluginIndex,
    environment: Environment,
    /// Around each plugin that this runtime opens.
    layers: Vec<Layer>,
    routing: Arc<Routing>,
    /// Retired here, while memory of theirs may still be given back.
    retired: Mutex<Vec<Weak<Plugin>>>,
    /// The child of a fork must not use it.
    generation: u32,
}

#[derive(Debug, Default, Clone)]
struct Registry {
    plugins: Vec<Arc<Listing>>,
    /// In the order of their plugins.
    devices: Vec<Device>,
    refused: Vec<Error>,
}

/// Why there is no such device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoDevice {
    /// The plugin is registered here, and has no device with this index.
    OfPlugin,
    /// The plugin is not registered here.
    NotListed,
}

/// What became of a plugin that was to be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    New,
    Known,
    /// It was retired before.
    Retired,
}

impl Runtime {
    /// A runtime that is not open yet.
    pub const fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// A runtime without a plugin.
    pub(crate) fn start(environment: Environment, layers: Vec<Layer>, routing: Routing) -> Self {
        Self(Arc::new_cyclic(|runtime| Inner {
            registry: Published::default(),
            index: DeviceIndex::default(),
            asked: PluginIndex::default(),
            routing: Arc::new(routing.of(WeakRuntime(Weak::clone(runtime)))),
            environment,
            layers,
            retired: Mutex::default(),
            generation: life::generation(),
        }))
    }

    /// The registered plugins, also those whose devices are absent.
    #[must_use]
    pub fn plugins(&self) -> Vec<Arc<Plugin>> {
        let registry = self.0.registry.read();
        let listings = registry.plugins.iter();
        listings.map(|one| Arc::clone(one.plugin())).collect()
    }

    /// The devices, in the order in which they were registered.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        self.0.registry.read().devices.clone()
    }

    /// The plugins with devices, for who asks all of them. Takes no lock.
    pub(crate) fn asked(&self) -> &PluginIndex {
        &self.0.asked
    }

    /// The files that the search found and that could not be loaded.
    #[must_use]
    pub fn refused(&self) -> Vec<Error> {
        self.0.registry.read().refused.clone()
    }

    /// The device with this DLPack pair. Takes no lock.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] with the devices that are here. [`Error::Hook`]: `FORKED`, where a
    /// plugin with such devices was not opened because the parent of this process started its driver.
    #[inline]
    pub fn device(&self, id: dlpack::Device) -> Result<Device, Error> {
        self.0.index.find(id).ok_or_else(|| self.unknown_device(id))
    }

    #[cold]
    fn unknown_device(&self, id: dlpack::Device) -> Error {
        let registry = self.0.registry.read();
        let mut plugins = registry.plugins.iter().map(|listing| listing.plugin());
        if let Some(error) = plugins.find_map(|plugin| plugin.forked_from(id.ty)) {
            return error.clone();
        }
        let known = registry.devices.iter().map(Device::id).collect();
        Error::UnknownDevice { device: id, known }
    }

    /// The first device with this identity.
    #[must_use]
    pub fn device_by_uuid(&self, uuid: [u8; 16]) -> Option<Device> {
        self.find(|device| device.uuid() == Some(uuid))
    }

    /// The first device at this place of the PCI bus, as in `0000:03:00.0`.
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

    fn find(&self, is_it: impl Fn(&Device) -> bool) -> Option<Device> {
        let registry = self.0.registry.read();
        registry
            .devices
            .iter()
            .find(|device| is_it(device))
            .cloned()
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
        opened::check_reentry("load a plugin")?;
        let inspect = || loader::inspect(path, &self.0.environment);
        let open = |found| {
            let plugin = loader::load(found, &self.0.layers)?;
            plugin.failure().cloned().map_or(Ok(plugin), Err)
        };
        self.load_inspected(inspect()?, inspect, open)
    }

    /// Removes a plugin from this runtime: its devices are gone and take no new work. Other runtimes
    /// keep it, and while one does, tensors on it can still be read. The last one that retires it
    /// drains its work, for at most five seconds; its code stays mapped. From then on what needs a hook
    /// of it, as reading and copying do, answers `RETIRED`. Tensors can be dropped at any time.
    ///
    /// # Errors
    /// What the plugin answered, `TIMEOUT` among it; it is removed all the same.
    /// [`Error::Misuse`] for a plugin that is not registered here; [`Error::Forked`] in the child of
    /// a fork.
    pub fn retire(&self, plugin: &Arc<Plugin>) -> Result<(), Error> {
        const OPERATION: &str = "retire a plugin";
        self.check_process(OPERATION)?;
        let Some(listing) = self.change(|registry| self.take_out(registry, plugin)) else {
            let why = format!(
                "`{}` is not registered in this runtime: retire it where it is",
                plugin.name()
            );
            return Err(Error::misuse(OPERATION, why));
        };
        self.0.routing.chunks().forget(plugin);
        self.retired().push(Arc::downgrade(plugin));
        if listing.retire() && *plugin.state() == PluginState::Ready {
            plugin.hooks().retire(RETIRE_DEADLINE_NS)
        } else {
            Ok(())
        }
    }

    /// Takes a plugin and its devices out of the registry and the indexes.
    fn take_out(&self, registry: &mut Registry, plugin: &Arc<Plugin>) -> Option<Arc<Listing>> {
        let mut listings = registry.plugins.iter();
        let at = listings.position(|listing| listing.is_of(plugin))?;
        let listing = registry.plugins.remove(at);
        for device in registry
            .devices
            .extract_if(.., |device| device.is_of(plugin))
        {
            device.listed().end();
        }
        self.0.index.retire(|device| device.is_of(plugin));
        self.0.asked.retire(plugin);
        Some(listing)
    }

    /// Blocks until all memory that was dropped before this call, while work on it was still running,
    /// is given back, or is leaked because nobody can say whether the work is over; `None` is no
    /// limit. Waits for the plugins that this runtime lists, and for those that were retired here.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or `EXITING` once the process exits, which leaves the rest to the
    /// system; [`Error::Misuse`] when called by a deleter, which is such a release itself;
    /// [`Error::Forked`] in the child of a fork.
    pub fn wait_for_releases(&self, limit: Option<Duration>) -> Result<(), Error> {
        const OPERATION: &str = "wait for releases";
        self.check_process(OPERATION)?;
        if life::is_releasing() {
            let why = "a deleter calls it, and would wait for itself: call it outside of deleters";
            return Err(Error::misuse(OPERATION, why));
        }
        let deadline = Deadline::after(limit);
        let mut plugins = self.plugins();
        plugins.extend(self.retired().iter().filter_map(Weak::upgrade));
        release::wait_for_all(OPERATION, &plugins, deadline)
    }

    /// The plugins that were retired here and are still open.
    fn retired(&self) -> MutexGuard<'_, Vec<Weak<Plugin>>> {
        let mut retired = self
            .0
            .retired
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        retired.retain(|plugin| plugin.strong_count() > 0);
        retired
    }

    /// Whether this process opened the runtime: any lock of an inherited one may be held for ever.
    fn check_process(&self, operation: &'static str) -> Result<(), Error> {
        if self.0.generation == life::generation() {
            Ok(())
        } else {
            Err(Error::Forked { operation })
        }
    }

    /// Numbers all devices anew. Nobody has one yet.
    pub(crate) fn number(&self, order: &DeviceOrder) {
        self.change(|registry| {
            for warning in order.unmatched(&registry.devices) {
                log::warn!(target: "crossdock::load", "{warning}");
            }
            self.0.index.retire(|_| true);
            for (device, named) in order.sort(&std::mem::take(&mut registry.devices)) {
                let claimed = if named { 0 } else { device.claimed_id() };
                let id = registry.free_id(device.id().ty, claimed);
                let device = device.with_id(id);
                self.0.index.add(&device);
                registry.devices.push(device);
            }
        });
    }

    #[cfg(feature = "cpu")]
    pub(crate) fn register_builtin(&self) {
        let layers = || Ok(self.0.layers.clone());
        let open = || crate::builtin::cpu(layers);
        if let Err(error) = self.open_and_register(open) {
            self.change(|registry| registry.refused.push(error.clone()));
        }
    }

    #[cfg(not(feature = "cpu"))]
    pub(crate) fn register_builtin(&self) {}

    pub(crate) fn search(&self, folders: &[PathBuf], standard: bool) {
        let mut environment = self.0.environment.clone();
        if !standard {
            environment.plugin_path = None;
            environment.beside.clear();
        }
        let found = loader::search(folders, &environment);
        for warning in &found.warnings {
            log::warn!(target: "crossdock::load", "{warning}");
        }
        for candidate in found.candidates {
            if let Err(error) = self.load_found(&candidate.path) {
                self.change(|registry| registry.refused.push(error.clone()));
            }
        }
    }

    /// A plugin whose name is already registered is skipped, unless that one is broken; only given
    /// files stand side by side.
    fn load_found(&self, path: &Path) -> Result<(), Error> {
        let found = loader::inspect(path, &self.0.environment)?;
        let name = &found.description.name;
        let is_it = |plugin: &Arc<Plugin>| plugin.name() == name && !plugin.is_broken();
        if self.plugins().iter().any(is_it) {
            let file = path.display();
            log::debug!(target: "crossdock::load", "skip {file}: `{name}` is registered");
            return Ok(());
        }
        if !self.0.environment.wants(name) {
            return Ok(());
        }
        let again = || loader::inspect(path, &self.0.environment);
        let open = |found| loader::load(found, &self.0.layers);
        self.load_inspected(found, again, open).map(drop)
    }

    /// Loads a file, which is inspected again where the first result is of no use any more.
    fn load_inspected(
        &self,
        found: Preflight,
        again: impl Fn() -> Result<Preflight, Error>,
        open: impl Fn(Preflight) -> Result<Arc<Plugin>, Error>,
    ) -> Result<Arc<Plugin>, Error> {
        let mut first = Some(found);
        self.open_and_register(|| open(first.take().map_or_else(&again, Ok)?))
    }

    /// Registers what is opened. A plugin that the last other runtime retires meanwhile is no longer
    /// open for new ones: then it is opened anew.
    fn open_and_register(
        &self,
        mut open: impl FnMut() -> Result<Arc<Plugin>, Error>,
    ) -> Result<Arc<Plugin>, Error> {
        loop {
            let plugin = open()?;
            if self.register(&plugin)? {
                return Ok(plugin);
            }
        }
    }

    /// Registers an open plugin; false where it was retired before it was listed here.
    pub(crate) fn register(&self, plugin: &Arc<Plugin>) -> Result<bool, Error> {
        let infos = match plugin.state() {
            PluginState::Ready => plugin.device_infos(),
            PluginState::Absent { .. } | PluginState::Broken { .. } => Ok(Vec::new()),
        };
        let infos = match infos {
            Err(_) if plugin.is_retired() => return Ok(false),
            infos => infos?,
        };
        let entered = self.change(|registry| self.enter(registry, plugin, &infos));
        // Not before its devices are there: one of them may be the owner.
        if entered == Entered::New && !infos.is_empty() {
            self.ask(plugin);
        }
        Ok(entered != Entered::Retired)
    }

    /// Enters a plugin with its devices. It is listed under the same turn, so that a retirement here
    /// finds it whole or not at all.
    fn enter(
        &self,
        registry: &mut Registry,
        plugin: &Arc<Plugin>,
        infos: &[DeviceInfo],
    ) -> Entered {
        if registry.has(plugin) {
            return Entered::Known;
        }
        let Some(listing) = Listing::new(plugin) else {
            return Entered::Retired;
        };
        // What an earlier try left of the same file says nothing any more.
        registry.plugins.retain(|listing| {
            let other = listing.plugin();
            other.failure().is_none() || other.path() != plugin.path()
        });
        registry.plugins.push(Arc::new(listing));
        for (index, info) in (0..).zip(infos) {
            let id = registry.free_id(DeviceType::from_raw(info.dl_type), info.dl_id);
            let device = Device::new(plugin, index, id, *info, &self.0.routing);
            self.0.index.add(&device);
            registry.devices.push(device);
        }
        Entered::New
    }

    /// Has pointer queries ask a plugin that is still here: it may have been retired since it was
    /// entered, and nobody would take it out of the index again.
    fn ask(&self, plugin: &Arc<Plugin>) {
        self.change(|registry| {
            if registry.has(plugin)
                && let Some(number) = self.0.asked.add(plugin)
            {
                self.0.routing.add_driver(number);
            }
        });
    }

    fn change<R>(&self, edit: impl FnOnce(&mut Registry) -> R) -> R {
        self.0.registry.change(edit)
    }
}

impl Registry {
    fn has(&self, plugin: &Arc<Plugin>) -> bool {
        self.plugins.iter().any(|listing| listing.is_of(plugin))
    }

    /// The claimed pair, or the next free id of its type where another plugin has it.
    fn free_id(&self, ty: DeviceType, claimed: i32) -> dlpack::Device {
        let taken: HashSet<i32> = self
            .devices
            .iter()
            .map(Device::id)
            .filter(|id| id.ty == ty)
            .map(|id| id.id)
            .collect();
        let first = claimed.max(0);
        let id = (first..i32::MAX)
            .find(|id| !taken.contains(id))
            .unwrap_or(first);
        ty.device(id)
    }
}

#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;
