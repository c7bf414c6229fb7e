//! What a runtime lists: plugins, their devices, and the files that could not be loaded.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossdock_sdk::dlpack::{self, DeviceType};

use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::listing::Listing;
use crate::plugins::plugin::Plugin;

#[derive(Debug, Default, Clone)]
pub(crate) struct Registry {
    pub(crate) plugins: Vec<Entry>,
    /// In the order of their plugins.
    pub(crate) devices: Vec<Device>,
    pub(crate) refused: Vec<Error>,
    /// The folders that were searched for plugins, whether they exist or not.
    pub(crate) searched: Vec<PathBuf>,
}

/// A plugin in a registry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) listing: Arc<Listing>,
    /// Whether its devices are in the registry, if it has any. A plugin that names a driver is not
    /// looked at before somebody needs it.
    pub(crate) is_enumerated: bool,
    /// Files of the same name that the search found, which are tried where this one does not work.
    pub(crate) others: Vec<PathBuf>,
}

impl Registry {
    pub(crate) fn entry(&mut self, plugin: &Arc<Plugin>) -> Option<&mut Entry> {
        let mut entries = self.plugins.iter_mut();
        entries.find(|entry| entry.listing.is_of(plugin))
    }

    /// Keeps a file for the case that the plugin of this name does not work, where nobody knows that so far.
    pub(crate) fn keep_for_later(&mut self, name: &str, path: &Path) -> bool {
        let mut entries = self.plugins.iter_mut();
        let is_it =
            |entry: &&mut Entry| !entry.is_enumerated && entry.listing.plugin().name() == name;
        let entry = entries.find(is_it);
        entry
            .map(|entry| entry.others.push(path.to_owned()))
            .is_some()
    }

    pub(crate) fn has(&self, plugin: &Arc<Plugin>) -> bool {
        self.plugins.iter().any(|entry| entry.listing.is_of(plugin))
    }

    /// The plugins that nobody has looked at here and that may serve one of these types, with those that
    /// share a type with one of them, in their order: numbers must not depend on who is asked for first.
    pub(crate) fn not_enumerated(
        &self,
        is_needed: impl Fn(DeviceType) -> bool,
    ) -> Vec<Arc<Plugin>> {
        let put_off = || {
            let entries = self.plugins.iter().filter(|entry| !entry.is_enumerated);
            entries.map(|entry| entry.listing.plugin())
        };
        let named = put_off().flat_map(|plugin| plugin.types());
        let mut types: HashSet<DeviceType> = named.filter(|ty| is_needed(*ty)).collect();
        if types.is_empty() {
            return Vec::new();
        }
        let mut plugins: Vec<_> = put_off().cloned().collect();
        let mut known = 0;
        while known < types.len() {
            known = types.len();
            for plugin in &plugins {
                if plugin.types().any(|ty| types.contains(&ty)) {
                    types.extend(plugin.types());
                }
            }
        }
        plugins.retain(|plugin| plugin.types().any(|ty| types.contains(&ty)));
        plugins
    }

    /// Whether the devices of some plugin are not here because nobody has looked at it.
    pub(crate) fn is_any_put_off(&self) -> bool {
        self.plugins.iter().any(|entry| !entry.is_enumerated)
    }

    fn place(&self, plugin: &Arc<Plugin>) -> Option<usize> {
        let mut entries = self.plugins.iter();
        entries.position(|entry| entry.listing.is_of(plugin))
    }

    /// Adds the devices of a plugin behind those of the plugins before it.
    pub(crate) fn add(&mut self, plugin: &Arc<Plugin>, new: Vec<Device>) {
        let own = self.place(plugin);
        let mut devices = self.devices.iter();
        let later = devices.position(|other| self.place(other.plugin()) > own);
        let at = later.unwrap_or(self.devices.len());
        self.devices.splice(at..at, new);
    }

    /// The ids that the devices have.
    pub(crate) fn ids(&self) -> Ids {
        let mut ids = Ids::default();
        for id in self.devices.iter().map(Device::id) {
            ids.take(id.ty, id.id);
        }
        ids
    }
}

/// The ids that are taken.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// For a taken id, a larger one: all ids from the first to the second are taken, without the second.
    later: HashMap<(DeviceType, i64), i64>,
}

impl Ids {
    /// Takes the claimed id, or the next free one of this type: behind the largest id comes 0.
    pub(crate) fn take(&mut self, ty: DeviceType, claimed: i32) -> dlpack::Device {
        let first = claimed.max(0);
        let free = i32::try_from(self.free(ty, first.into()));
        let free = free.or_else(|_| i32::try_from(self.free(ty, 0)));
        // Only 2^31 devices of one type leave no id.
        let id = free.unwrap_or(first);
        self.later.insert((ty, id.into()), i64::from(id) + 1);
        ty.device(id)
    }

    /// The first free id from `first` on. Those that were passed lead to it at once from now on.
    fn free(&mut self, ty: DeviceType, first: i64) -> i64 {
        let (mut id, mut passed) = (first, Vec::new());
        while let Some(&later) = self.later.get(&(ty, id)) {
            passed.push((ty, id));
            id = later;
        }
        self.later
            .extend(passed.into_iter().map(|taken| (taken, id)));
        id
    }
}
