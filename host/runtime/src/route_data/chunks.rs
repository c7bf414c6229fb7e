//! The staging memory of a runtime: how large a chunk is, and the idle chunks that are kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossdock_sdk::abi::{Side, Status};

use crate::error::Error;
use crate::hooks::panics::Panics;
use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;
use crate::process::process_state;
use crate::route_data::chunk::{Chunk, PAGE_BYTES};

/// Host memory for staged copies: each copy in flight holds at most [`PER_COPY`] chunks, and as
/// many are kept for the next one.
#[derive(Debug)]
pub(crate) struct Chunks {
    chunk_bytes: u64,
    /// Never held across a hook.
    idle: Mutex<Vec<Chunk>>,
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
        }
    }

    /// Bytes of one chunk.
    pub(crate) const fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// A chunk, locked for the plugins of both devices where both can do that.
    pub(crate) fn lease(&self, devices: [&PluginDevice; 2]) -> Result<Lease<'_>, Error> {
        let idle = self.idle().pop();
        let mut chunk = match idle {
            Some(chunk) => chunk,
            None => Chunk::new(self.chunk_bytes)?,
        };
        let panics = Panics::from_now();
        chunk.lock_for(devices);
        Ok(Lease {
            side: chunk.side(),
            chunk: Some(chunk),
            panics,
            home: self,
        })
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

    fn take_back(&self, chunk: Chunk) {
        let mut idle = self.idle();
        // Asked under the lock: a plugin that is retired from here on finds the chunk there.
        if idle.len() < PER_COPY && chunk.is_of_listed() {
            idle.push(chunk);
        } else {
            // Before the chunk is dropped, which calls hooks.
            drop(idle);
            drop(chunk);
        }
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
