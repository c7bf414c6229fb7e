//! The indexes of devices and plugins, whose readers do one load and one scan.
//!
//! They only grow, by a chunk at a time, so that nothing a reader looks at is ever freed. They hold
//! what they name weakly: a retired plugin closes when its last tensor is gone, not when the runtime
//! is.
//!
//! Without them the published registry would be read: by `scripts/bench counts` an import takes 3.9 %
//! more instructions where its device is found there, and a pointer query 7.2 % more where the plugins
//! to ask are.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossdock_sdk::dlpack;

use crate::devices::device::{Device, WeakDevice};
use crate::devices::pointer_query::Asked;
use crate::plugins::plugin::Plugin;

/// Devices in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct DeviceIndex(Chunk<DeviceSlot>);

#[derive(Debug)]
struct DeviceSlot {
    id: dlpack::Device,
    device: WeakDevice,
    retired: AtomicBool,
}

impl DeviceIndex {
    /// The device with this pair, if it is there and not retired.
    #[inline]
    pub(crate) fn find(&self, id: dlpack::Device) -> Option<Device> {
        self.0.find_map(|slot| {
            let is_it = slot.id == id && !slot.retired.load(Ordering::Acquire);
            is_it.then(|| slot.device.upgrade()).flatten()
        })
    }

    /// Adds the devices that are not there. One thread at a time adds devices.
    pub(crate) fn add(&self, devices: &[Device]) {
        let mut known = HashSet::new();
        self.0.each(|slot| {
            if !slot.retired.load(Ordering::Acquire) {
                known.insert(slot.device.identity());
            }
        });
        let new = devices.iter();
        let new = new.filter(|device| !known.contains(&device.identity()));
        self.0.extend(new.map(|device| DeviceSlot {
            id: device.id(),
            device: device.downgrade(),
            retired: AtomicBool::new(false),
        }));
    }

    /// Hides the devices that `is_gone` names. Those that are hidden are not looked at again: nobody
    /// else may hold them, and they must not end here.
    pub(crate) fn retire(&self, is_gone: impl Fn(&Device) -> bool) {
        self.0.each(|slot| {
            let is_hidden = slot.retired.load(Ordering::Acquire);
            if !is_hidden && slot.device.upgrade().is_none_or(|device| is_gone(&device)) {
                slot.retired.store(true, Ordering::Release);
            }
        });
    }
}

/// The plugins with devices, in the order in which they were registered.
#[derive(Debug, Default)]
pub(crate) struct QueryOrder(Chunk<PluginSlot>);

#[derive(Debug)]
struct PluginSlot {
    plugin: Weak<Plugin>,
    /// Whether its pointer query asks its driver.
    asks_driver: bool,
    retired: AtomicBool,
}

impl PluginSlot {
    /// A slot keeps the place of its plugin taken, so that no other has its address.
    #[inline]
    fn is_of(&self, plugin: &Arc<Plugin>) -> bool {
        std::ptr::eq(self.plugin.as_ptr(), Arc::as_ptr(plugin))
    }
}

impl QueryOrder {
    /// Shows each of these plugins that is not retired, until one gives an answer. `held` is one that the caller keeps alive: it needs no count of its own.
    #[inline]
    pub(crate) fn find_map<R>(
        &self,
        asked: Asked,
        held: Option<&Arc<Plugin>>,
        mut ask: impl FnMut(&Arc<Plugin>) -> Option<R>,
    ) -> Option<R> {
        self.0.find_map(|slot| {
            let is_asked = asked == Asked::All || !slot.asks_driver;
            if !is_asked || slot.retired.load(Ordering::Acquire) {
                return None;
            }
            match held {
                Some(held) if slot.is_of(held) => ask(held),
                _ => ask(&slot.plugin.upgrade()?),
            }
        })
    }

    /// Adds a plugin, unless it is there: who is asked twice would be two owners. One thread at a time adds
    /// plugins.
    pub(crate) fn add(&self, plugin: &Arc<Plugin>) {
        let known = self.0.find_map(|slot| {
            let is_it = slot.is_of(plugin) && !slot.retired.load(Ordering::Acquire);
            is_it.then_some(())
        });
        if known.is_some() {
            return;
        }
        self.0.extend([PluginSlot {
            plugin: Arc::downgrade(plugin),
            asks_driver: plugin.hooks().table().asks_driver(),
            retired: AtomicBool::new(false),
        }]);
    }

    /// Hides a plugin.
    pub(crate) fn retire(&self, plugin: &Arc<Plugin>) {
        self.0.each(|slot| {
            if slot.is_of(plugin) {
                slot.retired.store(true, Ordering::Release);
            }
        });
    }
}

/// Some slots in the order in which they were filled, and the chunk behind them.
#[derive(Debug)]
struct Chunk<T> {
    slots: [OnceLock<T>; CHUNK],
    next: OnceLock<Box<Self>>,
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self {
            slots: [const { OnceLock::new() }; CHUNK],
            next: OnceLock::new(),
        }
    }
}

impl<T> Chunk<T> {
    #[inline]
    fn find_map<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut chunk = self;
        loop {
            for slot in chunk.slots.iter().map_while(OnceLock::get) {
                if let Some(found) = look(slot) {
                    return Some(found);
                }
            }
            chunk = chunk.next.get()?;
        }
    }

    fn each(&self, mut show: impl FnMut(&T)) {
        self.find_map(|slot| {
            show(slot);
            None::<()>
        });
    }

    /// Fills the first free slots. No reader meets a free one before a full one.
    fn extend(&self, slots: impl IntoIterator<Item = T>) {
        let mut chunk = self;
        for mut slot in slots {
            while let Err(back) = chunk.set(slot) {
                slot = back;
                chunk = chunk.next.get_or_init(Box::default);
            }
        }
    }

    /// Fills the first free slot of this chunk, or gives back what has no room here.
    fn set(&self, mut slot: T) -> Result<(), T> {
        for place in &self.slots {
            match place.set(slot) {
                Ok(()) => return Ok(()),
                Err(back) => slot = back,
            }
        }
        Err(slot)
    }
}

const CHUNK: usize = 16;
