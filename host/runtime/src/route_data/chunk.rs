//! A chunk of host memory, locked for the plugins at both ends where both can lock it.
#![expect(
    unsafe_code,
    reason = "allocates host memory and lends it to register hooks"
)]

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::abi::{Capabilities, Side};
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::hooks::host_memory::{address_of, host_length, host_side};
use crate::hooks::waits::ask_until;
use crate::plugins::listing::Listed;
use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;
use crate::process::process_state;

/// Host memory through which staged bytes go; its content is undefined.
#[derive(Debug)]
pub(super) struct Chunk {
    base: NonNull<u8>,
    layout: Layout,
    locks: Vec<Lock>,
}

/// What became of asking a plugin to lock the chunk, for the first of its devices that used it. A plugin locks
/// memory once: the others reach it as well, or copy it like any host memory.
#[derive(Debug)]
struct Lock {
    plugin: Arc<Plugin>,
    device: u32,
    listed: Listed,
    is_held: bool,
}

// SAFETY: the memory is the chunk's own and any thread may use and free it; hooks may be called
// from any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    pub(super) fn new(bytes: u64) -> Result<Self, Error> {
        let refuse = |why: String| Error::exhausted("make host memory for a staged copy", why);
        let length = host_length(bytes.max(1))?;
        let layout = Layout::from_size_align(length, host_length(PAGE_BYTES)?)
            .map_err(|error| refuse(error.to_string()))?;
        // SAFETY: the layout's size is not 0.
        let memory = unsafe { alloc(layout) };
        let base = NonNull::new(memory).ok_or_else(|| refuse(format!("no {bytes} bytes left")))?;
        Ok(Self {
            base,
            layout,
            locks: Vec::new(),
        })
    }

    /// Asks the plugin of each device that can to lock the memory. One that does not only makes copies slower.
    pub(super) fn lock_for(&mut self, devices: [&PluginDevice; 2]) {
        let can = |device: &PluginDevice| device.capabilities().contains(Capabilities::REGISTER);
        if !devices.into_iter().all(can) {
            return;
        }
        for device in devices {
            if !self.is_known_to(&device.plugin) {
                self.lock(device);
            }
        }
    }

    fn lock(&mut self, device: &PluginDevice) {
        let (pointer, size) = (self.base.as_ptr().cast(), self.bytes());
        // SAFETY: the memory lives until `unlock`, which comes before it is freed.
        let locked = unsafe { device.hooks().register_host(device.index, pointer, size) };
        if let Err(error) = &locked {
            log::debug!(target: "crossdock::route", "{error}: {}", error.why());
        }
        self.locks.push(Lock {
            plugin: Arc::clone(&device.plugin),
            device: device.index,
            listed: device.listed.clone(),
            is_held: locked.is_ok(),
        });
    }

    /// Whether this plugin was asked to lock it.
    pub(super) fn is_known_to(&self, plugin: &Arc<Plugin>) -> bool {
        self.locks
            .iter()
            .any(|lock| Arc::ptr_eq(&lock.plugin, plugin))
    }

    /// Whether no plugin was asked to lock it.
    pub(super) const fn is_unlocked(&self) -> bool {
        self.locks.is_empty()
    }

    /// Whether the runtime still lists all devices that it was locked for.
    pub(super) fn is_of_listed(&self) -> bool {
        self.locks.iter().all(|lock| lock.listed.is_listed())
    }

    /// Its size.
    pub(super) const fn bytes(&self) -> u64 {
        self.layout.size() as u64
    }

    /// The memory as one side of a copy.
    pub(super) fn side(&self) -> Side {
        host_side(address_of(self.base.as_ptr()))
    }

    /// Gives up every lock; whether the memory may be freed.
    fn unlock(&mut self) -> bool {
        let pointer = self.base.as_ptr().cast();
        let mut is_free = true;
        for lock in self.locks.drain(..).filter(|lock| lock.is_held) {
            if process_state::exiting() || lock.plugin.hooks().is_forked() {
                is_free = false;
                continue;
            }
            let hooks = lock.plugin.hooks();
            // The copies through the chunk are over: this waits for a plugin that notices it late.
            let unlocked = ask_until(Deadline::after(Some(UNLOCK_LIMIT)), || {
                // SAFETY: this device took the pointer, and each lock is drained and ends once.
                unsafe { hooks.try_unregister_host(lock.device, pointer) }
            });
            is_free &= unlocked.as_ref().is_ok_and(|is_unlocked| *is_unlocked);
            if let Err(error) = unlocked {
                log::error!(target: "crossdock::memory", "{error}: {}", error.why());
            }
        }
        is_free
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if !self.unlock() {
            // A vendor still believes that it has the pages.
            process_state::count_leak();
            return;
        }
        // SAFETY: allocated with this layout; no device has it locked, and nobody else has it.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// A plugin that has not ended the lock by then keeps the memory, which is a counted leak.
const UNLOCK_LIMIT: Duration = Duration::from_secs(1);

/// What vendors lock is whole pages.
pub(crate) const PAGE_BYTES: u64 = 4096;
