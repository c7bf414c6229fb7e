//! How plugins come into a runtime: found by the search, loaded by their path, and looked at when somebody
//! needs their devices.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossdock_sdk::abi::DeviceInfo;
use crossdock_sdk::dlpack::DeviceType;

use crate::devices::device::Device;
use crate::devices::registry::{Entry, Registry};
use crate::devices::runtime::Runtime;
use crate::error::Error;
use crate::loader;
use crate::plugin_files::{self, Preflight};
use crate::plugins::listing::Listing;
use crate::plugins::open_plugins;
use crate::plugins::plugin::{Plugin, PluginState};
use crate::process::process_state;

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
        let open = || loader::builtin::cpu(layers);
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
        let found = plugin_files::search(folders, &environment);
        self.change(|registry| registry.searched.clone_from(&found.folders));
        for warning in &found.warnings {
            log::warn!(target: "crossdock::load", "{warning}");
        }
        for candidate in found.candidates {
            self.load_or_refuse(&candidate.path);
        }
    }

    fn load_or_refuse(&self, path: &Path) {
        if let Err(error) = self.load_found(path) {
            self.change(|registry| registry.refused.push(error.clone()));
        }
    }

    /// A plugin whose name is already registered is skipped, unless that one is broken; only given
    /// files stand side by side.
    fn load_found(&self, path: &Path) -> Result<(), Error> {
        let found = loader::inspect(path, &self.0.environment)?;
        let name = &found.description.name;
        let is_it = |plugin: &Arc<Plugin>| plugin.name() == name && !plugin.is_broken();
        if self.plugins().iter().any(is_it) {
            // Of one that nobody has looked at it is not known yet.
            let is_kept = self.change(|registry| registry.keep_for_later(name, path));
            let what = if is_kept { "keep" } else { "skip" };
            let file = path.display();
            log::debug!(target: "crossdock::load", "{what} {file}: `{name}` is registered");
            return Ok(());
        }
        // The search left out files that are not named, so this one is, by a name that is not its plugin's.
        if !self.0.environment.wants(name) {
            return Err(Error::Load {
                path: path.to_owned(),
                why: format!(
                    "`CROSSDOCK_PLUGINS` has the name of the file, and the plugin describes itself as \
                     `{name}`"
                ),
                hint: format!("call the file `libcrossdock_plugin_{name}.so`, and name `{name}`"),
            });
        }
        let again = || loader::inspect(path, &self.0.environment);
        let open = |found| {
            let plugin = loader::load(found, &self.0.layers)?;
            // No driver is started before somebody needs it.
            if plugin.driver().is_none() {
                open_plugins::start(&plugin)?;
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
            _ if self.enter_devices(registry, plugin, infos) => Entered::New,
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
            is_enumerated: false,
            others: Vec::new(),
        });
        Entered::New
    }

    /// Enters the devices of a listed plugin; false where they are there, or it was retired meanwhile.
    fn enter_devices(
        &self,
        registry: &mut Registry,
        plugin: &Arc<Plugin>,
        infos: &[DeviceInfo],
    ) -> bool {
        match registry.entry(plugin) {
            Some(entry) if !entry.is_enumerated => entry.is_enumerated = true,
            _ => return false,
        }
        let mut ids = registry.ids();
        let device = |(index, info): (u32, &DeviceInfo)| {
            let id = ids.take(DeviceType::from_raw(info.dl_type), info.dl_id);
            Device::new(plugin, index, id, *info, &self.0.shared)
        };
        let devices = (0..).zip(infos).map(device).collect();
        registry.add(plugin, devices);
        true
    }

    /// As [`Runtime::look_at`], of all plugins.
    #[inline]
    pub(crate) fn look_at_all(&self) {
        if self.may_start_drivers() {
            self.look_at(|_| true);
        }
    }

    /// Probes and opens the plugins that nobody needed so far and that may serve one of these types, and those
    /// that share a type with them. Their devices are entered together, in the order in which the plugins were
    /// registered.
    #[cold]
    pub(crate) fn look_at(&self, is_needed: impl Fn(DeviceType) -> bool) {
        if self.check_process("open a plugin").is_err() {
            return;
        }
        loop {
            let plugins = self.0.registry.read().not_enumerated(&is_needed);
            if plugins.is_empty() {
                // Another thread may have published them just now.
                return self.0.registry.settle();
            }
            // A plugin that asks for devices while it is opened is told so elsewhere.
            if plugins
                .iter()
                .any(|plugin| open_plugins::start(plugin).is_err())
            {
                return;
            }
            let others = self.enumerate(&plugins);
            if others.is_empty() {
                return;
            }
            others.iter().for_each(|other| self.load_or_refuse(other));
        }
    }

    /// Enters the devices of plugins that were looked at, and gives the files that may work where one of
    /// them does not.
    fn enumerate(&self, plugins: &[Arc<Plugin>]) -> Vec<PathBuf> {
        let infos = |plugin| (plugin, Self::infos_of(plugin));
        let found: Vec<_> = plugins.iter().map(infos).collect();
        self.change(|registry| {
            let mut others = Vec::new();
            for (plugin, infos) in &found {
                if (plugin.is_broken() || infos.is_err())
                    && let Some(entry) = registry.entry(plugin)
                {
                    others.append(&mut entry.others);
                }
                match infos {
                    Ok(infos) => drop(self.enter_devices(registry, plugin, infos)),
                    Err(error) => self.refuse(registry, plugin, error),
                }
            }
            others
        })
    }

    /// Takes out a plugin that did not say which devices it has, unless it told another thread, was retired
    /// meanwhile, or was not asked because the process exits.
    fn refuse(&self, registry: &mut Registry, plugin: &Arc<Plugin>, error: &Error) {
        let is_missing = |entry: &mut Entry| !entry.is_enumerated;
        if registry.entry(plugin).is_some_and(is_missing) && !process_state::is_exit_or_fork(error)
        {
            registry.refused.push(error.clone());
            self.take_out(registry, plugin);
        }
    }

    /// What a plugin that was looked at says of its devices; those that are absent say nothing.
    fn infos_of(plugin: &Arc<Plugin>) -> Result<Vec<DeviceInfo>, Error> {
        match plugin.state() {
            PluginState::Ready => plugin.device_infos(),
            _ => Ok(Vec::new()),
        }
    }
}
