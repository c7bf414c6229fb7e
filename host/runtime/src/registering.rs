//! How plugins come into a runtime: found by the search, loaded by their path, and looked at when somebody
//! needs their devices.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossdock_sdk::abi::DeviceInfo;
use crossdock_sdk::dlpack::DeviceType;

use crate::device::Device;
use crate::error::Error;
use crate::listing::Listing;
use crate::loader::{self, Preflight};
use crate::opened;
use crate::plugin::{Plugin, PluginState};
use crate::registry::{Entry, Registry};
use crate::runtime::Runtime;

/// What became of a plugin that was to be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    New,
    Known,
    /// It was retired before.
    Retired,
}

impl Runtime {
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
        let is_it = |plugin: &Arc<Plugin>| {
            if plugin.name() == name {
                self.look_at(|ty| plugin.serves(ty));
            }
            plugin.name() == name && !plugin.is_broken()
        };
        if self.plugins().iter().any(is_it) {
            let file = path.display();
            log::debug!(target: "crossdock::load", "skip {file}: `{name}` is registered");
            return Ok(());
        }
        if !self.0.environment.wants(name) {
            return Ok(());
        }
        let again = || loader::inspect(path, &self.0.environment);
        let open = |found| {
            let plugin = loader::load(found, &self.0.layers)?;
            // No driver is started before somebody needs it.
            if plugin.driver().is_none() {
                opened::start(&plugin)?;
            }
            Ok(plugin)
        };
        self.load_inspected(found, again, open).map(drop)
    }

    /// Loads a file, which is inspected again where the first result is of no use any more.
    pub(crate) fn load_inspected(
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
    pub(crate) fn open_and_register(
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

    /// Registers a plugin, with its devices where it was looked at; false where it was retired before it was
    /// listed here.
    pub(crate) fn register(&self, plugin: &Arc<Plugin>) -> Result<bool, Error> {
        if !plugin.is_started() {
            let listed = self.change(|registry| self.list(registry, plugin));
            return Ok(listed != Entered::Retired);
        }
        let infos = match Self::infos_of(plugin) {
            Err(_) if plugin.is_retired() => return Ok(false),
            infos => infos?,
        };
        // Devices of the plugins before it have the first numbers.
        if !infos.is_empty() {
            self.look_at(|ty| plugin.serves(ty));
        }
        let entered = self.change(|registry| self.enter(registry, plugin, &infos));
        // Not before its devices are there: one of them may be the owner.
        if entered == Entered::New && !infos.is_empty() {
            self.ask(plugin);
        }
        self.note_put_off();
        Ok(entered != Entered::Retired)
    }

    /// Enters a plugin with its devices.
    pub(crate) fn enter(
        &self,
        registry: &mut Registry,
        plugin: &Arc<Plugin>,
        infos: &[DeviceInfo],
    ) -> Entered {
        match self.list(registry, plugin) {
            Entered::Retired => Entered::Retired,
            _ if self.count(registry, plugin, infos) => Entered::New,
            _ => Entered::Known,
        }
    }

    /// Enters a plugin without its devices. It is listed under the same turn, so that a retirement here finds
    /// it whole or not at all.
    fn list(&self, registry: &mut Registry, plugin: &Arc<Plugin>) -> Entered {
        if registry.has(plugin) {
            return Entered::Known;
        }
        let Some(listing) = Listing::new(plugin) else {
            return Entered::Retired;
        };
        // What an earlier try left of the same file says nothing any more.
        registry.plugins.retain(|entry| {
            let other = entry.listing.plugin();
            other.failure().is_none() || other.path() != plugin.path()
        });
        registry.plugins.push(Entry {
            listing: Arc::new(listing),
            is_counted: false,
        });
        self.0.is_any_put_off.store(true, Ordering::Release);
        Entered::New
    }

    /// Enters the devices of a listed plugin; false where they are there, or it was retired meanwhile.
    fn count(&self, registry: &mut Registry, plugin: &Arc<Plugin>, infos: &[DeviceInfo]) -> bool {
        match registry.entry(plugin) {
            Some(entry) if !entry.is_counted => entry.is_counted = true,
            _ => return false,
        }
        for (index, info) in (0..).zip(infos) {
            let id = registry.free_id(DeviceType::from_raw(info.dl_type), info.dl_id);
            let device = Device::new(plugin, index, id, *info, &self.0.routing);
            self.0.index.add(&device);
            registry.add(device);
        }
        true
    }

    /// Lets those who need devices skip the look at plugins that nobody has looked at, where there are none:
    /// once all that was found is published.
    fn note_put_off(&self) {
        self.change(|registry| {
            let is_any = registry.plugins.iter().any(|entry| !entry.is_counted);
            self.0.is_any_put_off.store(is_any, Ordering::Release);
        });
    }

    /// Has pointer queries ask a plugin that is still here: it may have been retired since it was
    /// entered, and nobody would take it out of the index again.
    pub(crate) fn ask(&self, plugin: &Arc<Plugin>) {
        self.change(|registry| {
            if registry.has(plugin)
                && let Some(number) = self.0.asked.add(plugin)
            {
                self.0.routing.add_driver(number);
            }
        });
    }

    /// As [`Runtime::look_at`], of all plugins.
    #[inline]
    pub(crate) fn look_at_all(&self) {
        if self.0.is_any_put_off.load(Ordering::Acquire) {
            self.look_at(|_| true);
        }
    }

    /// Probes and opens the plugins that nobody needed so far and that may serve one of these types, and those
    /// that share a type with them. Their devices are counted together, in the order in which the plugins were
    /// registered.
    #[cold]
    pub(crate) fn look_at(&self, is_needed: impl Fn(DeviceType) -> bool) {
        let plugins = self.0.registry.read().not_counted(is_needed);
        // A plugin that asks for devices while it is opened is told so elsewhere.
        let may_start = self.check_process("open a plugin").is_ok() && !plugins.is_empty();
        if !may_start || plugins.iter().any(|plugin| opened::start(plugin).is_err()) {
            return;
        }
        let infos = |plugin| (plugin, Self::infos_of(plugin));
        let found: Vec<_> = plugins.iter().map(infos).collect();
        self.change(|registry| {
            for (plugin, infos) in &found {
                match infos {
                    Ok(infos) => drop(self.count(registry, plugin, infos)),
                    Err(error) => {
                        registry.refused.push(error.clone());
                        self.take_out(registry, plugin);
                    }
                }
            }
        });
        for (plugin, infos) in found {
            if infos.is_ok_and(|infos| !infos.is_empty()) {
                self.ask(plugin);
            }
        }
        self.note_put_off();
    }

    /// What a plugin that was looked at says of its devices; those that are absent say nothing.
    fn infos_of(plugin: &Arc<Plugin>) -> Result<Vec<DeviceInfo>, Error> {
        match plugin.state() {
            PluginState::Ready => plugin.device_infos(),
            _ => Ok(Vec::new()),
        }
    }
}
