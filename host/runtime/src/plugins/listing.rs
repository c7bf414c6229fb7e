//! Which runtimes list a plugin, and which of them lets go last.
//!
//! A plugin is open once in the process, and each runtime lists it or not. A runtime lets go by
//! retiring the plugin or by being dropped; the retirement that finds no other runtime retires the
//! plugin itself, for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::plugins::plugin::Plugin;

/// How many runtimes list a plugin, or that no more will.
#[derive(Debug, Default)]
pub(crate) struct Runtimes(AtomicU32);

/// Instead of a count: the last runtime has retired the plugin.
const RETIRED: u32 = u32::MAX;

impl Runtimes {
    pub(crate) fn is_retired(&self) -> bool {
        self.0.load(Ordering::Acquire) == RETIRED
    }

    /// Counts one more, unless the plugin is retired.
    fn enter(&self) -> bool {
        let more = |count: u32| count.checked_add(1).filter(|count| *count < RETIRED);
        self.change(more).is_some()
    }

    /// Counts one less, and retires the plugin where `retires` and nobody else lists it. Says
    /// whether this was what retired it.
    fn leave(&self, retires: bool) -> bool {
        let less = |count: u32| match count {
            0 | RETIRED => None,
            1 if retires => Some(RETIRED),
            count => Some(count - 1),
        };
        self.change(less) == Some(1) && retires
    }

    /// What the count was before a change that was made.
    fn change(&self, next: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
        let order = Ordering::AcqRel;
        self.0.fetch_update(order, Ordering::Acquire, next).ok()
    }
}

/// A plugin in the list of one runtime, which lets go when this is dropped.
#[derive(Debug)]
pub(crate) struct Listing {
    plugin: Arc<Plugin>,
    has_left: AtomicBool,
}

impl Listing {
    /// Lists a plugin; `None` where it is retired.
    pub(crate) fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin.runtimes().enter().then(|| Self {
            plugin: Arc::clone(plugin),
            has_left: AtomicBool::new(false),
        })
    }

    pub(crate) const fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    pub(crate) fn is_of(&self, plugin: &Arc<Plugin>) -> bool {
        Arc::ptr_eq(&self.plugin, plugin)
    }

    /// Lets go of the plugin. `true` where no other runtime lists it: then the plugin is retired, and
    /// the caller calls its hook. Only one caller ever gets that answer.
    pub(crate) fn retire(&self) -> bool {
        self.leave(true)
    }

    fn leave(&self, retires: bool) -> bool {
        let is_first = !self.has_left.swap(true, Ordering::AcqRel);
        is_first && self.plugin.runtimes().leave(retires)
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.leave(false);
    }
}

/// Whether the runtime of a device still offers it. Clones share the answer and keep nothing alive, so
/// that what is cached for a device can ask whether it will be used again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed {
    is_over: Arc<AtomicBool>,
}

impl Listed {
    pub(crate) fn is_listed(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// From now on the device takes no new work.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
