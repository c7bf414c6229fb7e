//! A stream as its plugin knows it, and the streams that are alive on a plugin's devices.
//!
//! The table belongs to the open plugin, so that one stream is one core for all runtimes: callers of its
//! hooks take the same lock, and streams that are compared are seen to be one. No hook is called
//! under the table's lock: of two threads that ask the plugin at once, the second
//! finds what the first entered, and gives its own handle back.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossdock_sdk::abi::StreamHandle;

use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::plugins::plugin::Plugin;
use crate::process::process_state;
use crate::streams::event::Event;
use crate::streams::internal_streams::is_of_work;
use crate::streams::release;
use crate::streams::stream::done;
use crate::streams::stream_frees::{Frees, Place};

/// A stream of one device of a plugin, whatever runtime asked for it.
pub(crate) struct StreamCore {
    plugin: Arc<Plugin>,
    device: u32,
    pub(crate) handle: StreamHandle,
    /// The integer that the vendor's API uses, where there is one.
    native: Option<u64>,
    origin: Origin,
    /// The contract: one submitting call at a time for one stream. Held across hooks that never
    /// block and never call back. Under it only locks are taken that are held over no call.
    submit_lock: Mutex<()>,
    /// Held while work of another plugin is put between two events of this stream. The submit
    /// lock is taken under it, and where that plugin has no host events its holder blocks until the stream's
    /// earlier work is over.
    foreign_lock: Mutex<()>,
    frees: Frees,
    /// How many waits told of a failure of its work, or may be about to.
    tellers: AtomicU64,
}

/// Where a stream comes from, which says how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made here, and destroyed here.
    Created,
    /// The device's own default, which the plugin keeps.
    Default,
    /// Somebody else's; only the plugin's handle of it is destroyed here.
    Wrapped,
}

impl StreamCore {
    /// Takes a handle that a hook gave just now, and asks which stream of the vendor's it is.
    ///
    /// # Errors
    /// What the plugin answered to that; the handle was given back. Without the answer one stream
    /// could become two.
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        device: u32,
        handle: StreamHandle,
        origin: Origin,
    ) -> Result<Self, Error> {
        let mut core = Self {
            plugin: Arc::clone(plugin),
            device,
            handle,
            native: None,
            origin,
            submit_lock: Mutex::new(()),
            foreign_lock: Mutex::new(()),
            frees: Frees::default(),
            tellers: AtomicU64::new(0),
        };
        core.native = match plugin.hooks().stream_native(handle) {
            Ok(native) => Some(native),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error),
        };
        Ok(core)
    }

    /// Waits by a hook that tells of a failure of the stream's work. With that the plugin forgets the
    /// failure, and an event that is recorded later does not have it. So the wait is counted before.
    pub(crate) fn tell(&self, wait: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.tellers.fetch_add(1, Ordering::AcqRel);
        let told = wait();
        if !told.as_ref().is_err_and(is_of_work) {
            self.tellers.fetch_sub(1, Ordering::AcqRel);
        }
        told
    }

    /// Whether a failure of its work may have been told by now.
    pub(crate) fn may_have_told(&self) -> bool {
        self.tellers.load(Ordering::Acquire) != 0
    }

    /// Calls hooks that submit to this stream, one caller at a time.
    pub(crate) fn with_submit_lock<T>(
        &self,
        call: impl FnOnce(StreamHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = self.lock(&self.submit_lock);
        call(self.handle)
    }

    /// Puts work of another plugin between two events of this stream, one caller at a time. Inside,
    /// the first event is recorded and the second waited for, each under the submit lock.
    pub(crate) fn with_foreign_lock<T>(
        &self,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = self.lock(&self.foreign_lock);
        call()
    }

    /// Notes that the stream was told to free memory, for those who wait for releases.
    pub(crate) fn note_free(&self, device: &Device) {
        if release::is_within() {
            // A part of that release, for which somebody may wait already, who looks here no more.
            self.finish(Place::new(device));
        } else {
            self.frees.note(device);
        }
    }

    /// Lets those who wait for releases go on once the stream is past all that it was told to free so
    /// far.
    fn finish(&self, frees: Place) {
        frees.leave_behind(|device| {
            self.with_submit_lock(|handle| {
                if matches!(done(device.hooks().stream_query(handle)), Ok(true)) {
                    return Ok(None);
                }
                let end = Event::create(device)?;
                device.hooks().event_record(end.handle(), handle)?;
                Ok(Some(end))
            })
        });
    }

    /// In the child of a fork a thread that the child does not have may hold the lock; no hook is
    /// called there.
    fn lock<'a>(&self, lock: &'a Mutex<()>) -> Option<MutexGuard<'a, ()>> {
        let is_forked = self.plugin.hooks().is_forked();
        (!is_forked).then(|| lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for StreamCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamCore")
            .field("plugin", &self.plugin.name())
            .field("device", &self.device)
            .field("handle", &self.handle)
            .field("native", &self.native)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Drop for StreamCore {
    fn drop(&mut self) {
        if let Some(frees) = self.frees.last() {
            if process_state::exiting() || self.plugin.hooks().is_forked() {
                let _nobody_waits = ManuallyDrop::new(frees);
            } else {
                self.finish(frees);
            }
        }
        // A wrapped one ends as the plugin's handle only: the stream stays its owner's.
        if self.origin != Origin::Default {
            destroy(self.plugin.hooks(), self.handle);
        }
    }
}

/// Gives a stream back to its plugin. At exit and in the child of a fork it is a counted leak.
pub(crate) fn destroy(hooks: &Hooks, stream: StreamHandle) {
    if let Err(error) = hooks.stream_destroy(stream)
        && !process_state::is_exit_or_fork(&error)
    {
        log::error!(target: "crossdock::stream", "{error}: {}", error.why());
    }
}

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
    pub(crate) fn default_of(&self, device: u32) -> Option<Arc<StreamCore>> {
        self.find(|entry| entry.device == device && entry.is_default)
    }

    /// The stream of a device with this native integer, where somebody holds it.
    pub(crate) fn with_native(&self, device: u32, native: u64) -> Option<Arc<StreamCore>> {
        self.find(|entry| entry.device == device && entry.native == Some(native))
    }

    /// All streams of a device that somebody holds.
    pub(crate) fn of(&self, device: u32) -> Vec<Arc<StreamCore>> {
        let Some(entries) = self.entries() else {
            return Vec::new();
        };
        let here = entries.iter().filter(|entry| entry.device == device);
        // The counts that `upgrade` takes go out with the answer, so no stream ends under the lock.
        here.filter_map(|entry| entry.core.upgrade()).collect()
    }

    /// Records where each stream is past what it was told to free so far, for those who wait for
    /// releases.
    pub(crate) fn finish_frees(&self) {
        let Some(entries) = self.entries() else {
            return;
        };
        let cores = entries.iter().filter_map(|entry| entry.core.upgrade());
        let cores: Vec<_> = cores.collect();
        drop(entries);
        for core in cores {
            if let Some(frees) = core.frees.take() {
                core.finish(frees);
            }
        }
    }

    /// Enters a stream; where it is entered and alive already, gives that one. A stream that was created
    /// just now is new whatever its integer: an older one with the same integer has lost it.
    pub(crate) fn enter(&self, core: StreamCore) -> Arc<StreamCore> {
        let Some(mut entries) = self.entries() else {
            return Arc::new(core);
        };
        let is_default = core.origin == Origin::Default;
        let mut newest_first = entries.iter_mut().rev();
        let known = newest_first.find_map(|entry| {
            let is_it = core.origin != Origin::Created && entry.is(&core);
            let known = is_it.then(|| entry.core.upgrade()).flatten()?;
            entry.is_default |= is_default;
            Some(known)
        });
        if let Some(known) = known {
            // After the lock: giving the second handle back calls a hook.
            drop(entries);
            drop(core);
            return known;
        }
        entries.retain(|entry| entry.core.strong_count() > 0);
        let (device, handle, native) = (core.device, core.handle, core.native);
        let core = Arc::new(core);
        entries.push(Entry {
            device,
            handle,
            native,
            is_default,
            core: Arc::downgrade(&core),
        });
        core
    }

    /// The newest first: an older one with the same integer has lost it.
    fn find(&self, is_it: impl Fn(&Entry) -> bool) -> Option<Arc<StreamCore>> {
        let entries = self.entries()?;
        let mut found = entries.iter().rev().filter(|entry| is_it(entry));
        found.find_map(|entry| entry.core.upgrade())
    }

    fn entries(&self) -> Option<MutexGuard<'_, Vec<Entry>>> {
        // Each change is one push, one flag or a removal of what is gone.
        let lock = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation == process_state::generation()).then(lock)
    }
}
