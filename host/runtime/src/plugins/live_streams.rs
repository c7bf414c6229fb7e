//! The streams that are alive on a plugin's devices.
//!
//! The table belongs to the open plugin, so that one stream is one core for all runtimes. No hook is
//! called under its lock: of two threads that ask the plugin at once, the second finds what the
//! first entered, and gives its own handle back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossdock_sdk::abi::StreamHandle;
use crossdock_sdk::deadline::Deadline;

use crate::plugins::stream_core::{Hold, Origin, StreamCore};
use crate::process::process_state;

/// The streams that are alive on the devices of one plugin. An entry is found while somebody holds
/// its stream, and never longer: vendors use their handles again.
#[derive(Debug)]
pub(crate) struct LiveStreams {
    entries: Mutex<Vec<Entry>>,
    /// In the child of a fork the lock may be held by a thread that the child does not have.
    generation: u32,
}

/// What a stream is found by. It is compared without a count of the core's own, because the last
/// count must not be dropped under the lock.
#[derive(Debug)]
struct Entry {
    device: u32,
    handle: StreamHandle,
    native: Option<u64>,
    is_default: bool,
    core: Weak<StreamCore>,
}

impl Entry {
    /// Whether a stream that the plugin gave just now is this one. Two integers that mean one stream are
    /// seen to be one, because `core.native` is what the plugin says of the handle.
    fn is(&self, core: &StreamCore) -> bool {
        let same_native = self.native.is_some() && self.native == core.native;
        self.device == core.device && (same_native || self.handle == core.handle)
    }
}

impl LiveStreams {
    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::default(),
            generation: process_state::generation(),
        }
    }

    /// The default stream of a device, where somebody holds it.
    pub(crate) fn default_of(&self, device: u32) -> Option<Hold> {
        self.find(|entry| entry.device == device && entry.is_default)
    }

    /// The stream of a device with this native integer, where somebody holds it.
    pub(crate) fn with_native(&self, device: u32, native: u64) -> Option<Hold> {
        self.find(|entry| entry.device == device && entry.native == Some(native))
    }

    /// All live streams of a device. Those of others may be ended by their owners at any time.
    pub(crate) fn of(&self, device: u32) -> Vec<Hold> {
        let Some(entries) = self.entries() else {
            return Vec::new();
        };
        let here = entries.iter().filter(|entry| entry.device == device);
        let cores: Vec<_> = here.filter_map(|entry| entry.core.upgrade()).collect();
        // After the lock: the last count of one that nobody has in hand may be this one.
        drop(entries);
        cores
            .into_iter()
            .filter_map(Hold::uncounted_if_of_others)
            .collect()
    }

    /// Records where each stream is past what it was told to free so far, for those who wait for
    /// releases. A stream that another call keeps until the deadline stays as it is, and is waited for in vain.
    pub(crate) fn finish_frees(&self, deadline: Deadline) {
        let Some(entries) = self.entries() else {
            return;
        };
        let cores = entries.iter().filter_map(|entry| entry.core.upgrade());
        let cores: Vec<_> = cores.collect();
        drop(entries);
        cores.iter().for_each(|core| core.finish_frees(deadline));
    }

    /// Enters a stream; where it is entered and alive already, gives that one. A stream that was created
    /// just now is new whatever its integer: an older one with the same integer has lost it. So has one that
    /// nobody has in hand.
    pub(crate) fn enter(&self, core: StreamCore) -> Hold {
        let Some(mut entries) = self.entries() else {
            return Hold::first(core);
        };
        let is_default = core.origin == Origin::Default;
        // Dropped after the lock.
        let mut left = Vec::new();
        let mut newest_first = entries.iter_mut().rev();
        let known = newest_first.find_map(|entry| {
            let is_it = core.origin != Origin::Created && entry.is(&core);
            let known = is_it.then(|| entry.core.upgrade()).flatten()?;
            match Hold::of(Arc::clone(&known)) {
                Some(hold) => {
                    entry.is_default |= is_default;
                    Some(hold)
                }
                None => {
                    left.push(known);
                    None
                }
            }
        });
        if let Some(known) = known {
            // After the lock: giving the second handle back calls a hook.
            drop(entries);
            drop(core);
            return known;
        }
        entries.retain(|entry| entry.core.strong_count() > 0);
        let (device, handle, native) = (core.device, core.handle, core.native);
        let hold = Hold::first(core);
        entries.push(Entry {
            device,
            handle,
            native,
            is_default,
            core: Arc::downgrade(&hold),
        });
        drop(entries);
        hold
    }

    /// Registers the integer of a stream that was created here, before a caller gets it. An older stream with the same
    /// integer has lost it.
    pub(crate) fn register_native(&self, core: &Arc<StreamCore>, native: u64) {
        let Some(mut entries) = self.entries() else {
            return;
        };
        let is_it = |entry: &Entry| {
            entry.native.is_none() && std::ptr::eq(entry.core.as_ptr(), Arc::as_ptr(core))
        };
        if let Some(at) = entries.iter().position(is_it) {
            let entry = entries.remove(at);
            entries.push(Entry {
                native: Some(native),
                ..entry
            });
        }
    }

    /// Takes out a stream that has ended: memories that remember its work may know it for as long as they live.
    pub(super) fn forget(&self, core: &StreamCore) {
        if let Some(mut entries) = self.entries() {
            entries.retain(|entry| !std::ptr::eq(entry.core.as_ptr(), core));
        }
    }

    /// The newest that somebody has in hand: an older one with the same integer has lost it.
    fn find(&self, is_it: impl Fn(&Entry) -> bool) -> Option<Hold> {
        let entries = self.entries()?;
        let found = entries.iter().rev().filter(|entry| is_it(entry));
        let found: Vec<_> = found.filter_map(|entry| entry.core.upgrade()).collect();
        // After the lock: the last count of one that nobody has in hand may be this one.
        drop(entries);
        found.into_iter().find_map(Hold::of)
    }

    fn entries(&self) -> Option<MutexGuard<'_, Vec<Entry>>> {
        // Each change is one push, one flag or a removal of what is gone.
        let lock = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation == process_state::generation()).then(lock)
    }
}
