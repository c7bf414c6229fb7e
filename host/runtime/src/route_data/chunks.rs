//! The staging memory of a runtime: how large a chunk is, the idle chunks that are kept, and the rings in use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossdock_sdk::abi::{Side, Status};

use crate::error::Error;
use crate::hooks::panics::Panics;
use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;
use crate::process::process_state;
use crate::route_data::chunk::{Chunk, PAGE_BYTES};
use crate::route_data::ring::{Ring, RingUser};

/// Host memory for staged copies: each copy in flight holds at most [`PER_COPY`] chunks, and as
/// many are kept for the next one. Copies on a stream may have longer chunks, of which [`LONG_BYTES`] are kept.
#[derive(Debug)]
pub(crate) struct Chunks {
    chunk_bytes: u64,
    /// The oldest first. Never held across a hook.
    idle: Mutex<Vec<Chunk>>,
    /// Rings that the next copy on the same stream may use. Never held across a hook.
    rings: Mutex<Vec<Weak<Ring>>>,
}

/// A chunk in use; it goes back to its runtime when dropped, unless a hook that it was lent to panicked or a device
/// that may have it was lost.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    /// `None` only while it is dropped.
    chunk: Option<Chunk>,
    side: Side,
    panics: Panics,
    home: &'a Chunks,
}

/// Chunks of one copy. More than two links can fill at once, so that a driver that works on a thread
/// or a device of its own finds the next part waiting when it is done with one.
pub(crate) const PER_COPY: usize = 8;

/// Idle chunks that are longer than [`Chunks::chunk_bytes`] have at most so many bytes together.
pub(crate) const LONG_BYTES: u64 = 64 << 20;

/// A chunk where nobody says otherwise. It stays in a core's cache on its way from one link to the
/// other, and is just below the 1 MiB from which plugins share a copy over threads of their own,
/// which would take the cores from the other link.
const DEFAULT_CHUNK_BYTES: u64 = 960 << 10;

impl Chunks {
    /// Chunks of whole pages, of which [`PER_COPY`] fit in `bytes`.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let asked = bytes.map(|bytes| bytes / PER_COPY as u64 / PAGE_BYTES * PAGE_BYTES);
        Self {
            chunk_bytes: asked.unwrap_or(DEFAULT_CHUNK_BYTES).max(PAGE_BYTES),
            idle: Mutex::default(),
            rings: Mutex::default(),
        }
    }

    /// Bytes of one chunk.
    pub(crate) const fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// A chunk, locked for the plugins of both devices where both can do that.
    pub(crate) fn lease(&self, devices: [&PluginDevice; 2]) -> Result<Lease<'_>, Error> {
        let mut chunk = self.take(self.chunk_bytes)?;
        let panics = Panics::from_now();
        chunk.lock_for(devices);
        Ok(Lease {
            side: chunk.side(),
            chunk: Some(chunk),
            panics,
            home: self,
        })
    }

    /// An idle chunk of this size, or a new one.
    pub(super) fn take(&self, bytes: u64) -> Result<Chunk, Error> {
        let idle = {
            let mut idle = self.idle();
            let newest = idle.iter().rposition(|chunk| chunk.bytes() == bytes);
            newest.map(|at| idle.remove(at))
        };
        idle.map_or_else(|| Chunk::new(bytes), Ok)
    }

    /// The ring of the last copy by this user, where that copy is pending and the chunks have at least so many bytes.
    /// The caller has it alone until it [shares](Self::share_ring) it.
    pub(crate) fn take_ring(&self, user: &RingUser<'_>, bytes: u64) -> Option<Arc<Ring>> {
        let alive: Vec<Arc<Ring>> = {
            let mut rings = self.rings();
            rings.retain(|ring| ring.strong_count() > 0);
            rings.iter().filter_map(Weak::upgrade).collect()
        };
        // After the lock: the last drop of a ring calls hooks.
        let mut fitting = alive.into_iter().filter(|ring| ring.fits(user, bytes));
        let ring = fitting.next()?;
        let mut rings = self.rings();
        let known = rings
            .iter()
            .position(|one| one.as_ptr() == Arc::as_ptr(&ring));
        // None: another thread took it first.
        known.map(|at| rings.swap_remove(at))?;
        Some(ring)
    }

    /// Lets the next copy by the ring's user take it; [`Ring::written`] is known.
    pub(crate) fn share_ring(&self, ring: &Arc<Ring>) {
        self.rings().push(Arc::downgrade(ring));
    }

    /// Gives back the idle chunks that this plugin has locked. Those in use follow when
    /// their copy is done with them, as the plugin is not listed any more.
    pub(crate) fn forget(&self, plugin: &Arc<Plugin>) {
        let known: Vec<Chunk> = self
            .idle()
            .extract_if(.., |chunk| chunk.is_known_to(plugin))
            .collect();
        // After the lock: this calls hooks.
        drop(known);
    }

    /// Gives back the idle chunks that the device's plugin has locked, and those that none has.
    pub(crate) fn trim(&self, device: &PluginDevice) {
        let free: Vec<Chunk> = self
            .idle()
            .extract_if(.., |chunk| {
                chunk.is_unlocked() || chunk.is_known_to(&device.plugin)
            })
            .collect();
        // After the lock: this calls hooks.
        drop(free);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a chunk for the next copy. Frees the oldest ones of its class, usual or long, where they are too many.
    pub(super) fn take_back(&self, chunk: Chunk) {
        let is_long = |one: &Chunk| one.bytes() > self.chunk_bytes;
        let class = is_long(&chunk);
        let limit = match class {
            true => LONG_BYTES,
            false => self.chunk_bytes.saturating_mul(PER_COPY as u64),
        };
        let mut surplus = Vec::new();
        let mut idle = self.idle();
        // Asked under the lock: a plugin that is retired from here on finds the chunk there.
        if chunk.is_of_listed() {
            idle.push(chunk);
            let alike = |one: &&Chunk| is_long(one) == class;
            while idle.iter().filter(alike).map(Chunk::bytes).sum::<u64>() > limit
                && let Some(oldest) = idle.iter().position(|one| alike(&one))
            {
                surplus.push(idle.remove(oldest));
            }
        } else {
            surplus.push(chunk);
        }
        // After the lock: this calls hooks.
        drop(idle);
        drop(surplus);
    }

    fn rings(&self) -> MutexGuard<'_, Vec<Weak<Ring>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// The memory as one side of a copy.
    pub(crate) const fn side(&self) -> Side {
        self.side
    }

    /// Leaks the chunk where a copy from or to it failed with its device: nobody can tell whether that is over.
    pub(crate) fn fail(mut self, error: &Error) {
        if error.status() == Some(Status::DEVICE_LOST)
            && let Some(chunk) = self.chunk.take()
        {
            process_state::leak(chunk);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            match self.panics.is_any() {
                true => process_state::leak(chunk),
                false => self.home.take_back(chunk),
            }
        }
    }
}
