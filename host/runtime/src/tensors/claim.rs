//! Claims of host memory. What a producer calls the host's may be a device's, and some plugins have to
//! ask their driver to know: they are asked once a memory, before it is first used, and not at its import.
//!
//! Copies ([`order::run`](crate::copies::order::run)), routes, exports, waits and registrations all come here first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock_sdk::abi::{PointerFlags, PointerInfo};
use crossdock_sdk::dlpack::{self, DeviceType};

use crate::devices::device::Device;
use crate::devices::pointer_query::{self, Claim};
use crate::devices::runtime::NoDevice;
use crate::error::Error;
use crate::plugins::open_plugins;
use crate::plugins::plugin::Plugin;
use crate::tensors::memory::Memory;

/// A producer's claim that memory is the host's, and the newest plugin that was asked about it, by its
/// number among the plugins of the process that ask their driver ([`open_plugins::querying_plugins_after`]): memory goes
/// from one runtime to another, and is a device's or not, whichever runtime lists the plugin.
#[derive(Debug)]
pub(crate) struct HostClaim(AtomicU32);

impl HostClaim {
    /// No plugin was asked that has to ask its driver.
    pub(crate) const fn unchecked() -> Self {
        Self(AtomicU32::new(0))
    }

    /// There is nobody to ask: the owner is known.
    pub(crate) const fn settled() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }

    /// Whether all plugins up to this number were asked.
    pub(crate) fn is_checked_by(&self, number: u32) -> bool {
        self.0.load(Ordering::Acquire) >= number
    }
}

impl Memory {
    /// Makes sure that memory which its producer calls the host's is no device's. Asks those plugins
    /// that were opened since this was last called, and keeps what they say.
    ///
    /// # Errors
    /// [`Error::Claim`] with both claims; what a pointer query answered that failed.
    #[inline]
    pub(crate) fn check_claim(&self) -> Result<(), Error> {
        match open_plugins::newest_querying_plugin() {
            0 => Ok(()),
            newest => self.check_claim_of_root(newest),
        }
    }

    fn check_claim_of_root(&self, newest: u32) -> Result<(), Error> {
        let root = self.root();
        let Some(HostClaim(asked)) = root.claim() else {
            return Ok(());
        };
        let asked_before = asked.load(Ordering::Acquire);
        // What is inherited is answered `FORKED`, and nobody here knows of it.
        if asked_before >= newest || root.is_inherited() {
            return Ok(());
        }
        root.ask_querying_plugins(asked_before)?;
        asked.fetch_max(newest, Ordering::AcqRel);
        Ok(())
    }

    #[cold]
    fn ask_querying_plugins(&self, asked_before: u32) -> Result<(), Error> {
        let plugins = open_plugins::querying_plugins_after(asked_before);
        let find = |plugin: &Arc<Plugin>, index| self.device_of(plugin, index);
        match pointer_query::owner_among(&plugins, self.address.word, find)? {
            Some(owner) => self.check_is_hosts(&owner),
            None => Ok(()),
        }
    }

    /// A device of an open plugin, as the memory's own runtime calls it, where that lists the plugin.
    fn device_of(&self, plugin: &Arc<Plugin>, index: u32) -> Result<Device, NoDevice> {
        let shared = self.device.shared();
        let listed = shared.runtime();
        if let Some(device) = listed.and_then(|runtime| runtime.device_of(plugin, index)) {
            return Ok(device);
        }
        let info = plugin.hooks().device_info(index);
        let info = info.map_err(|_not_there| match plugin.is_retired() {
            true => NoDevice::NotListed,
            false => NoDevice::OfPlugin,
        })?;
        let id = DeviceType::from_raw(info.dl_type).device(info.dl_id);
        Ok(Device::new(plugin, index, id, info, shared))
    }

    /// Whether memory that a plugin knows is the host's all the same.
    fn check_is_hosts(&self, owner: &Claim) -> Result<(), Error> {
        if !owner.info.flags.contains(PointerFlags::HOST_ACCESSIBLE) {
            return Err(other_owner(self.device.id(), &owner.device));
        }
        let at = start_in(self.address.word, &owner.info);
        let fits = at
            .checked_add(self.size)
            .is_some_and(|end| end <= owner.info.size);
        if owner.is_foreign() || fits {
            return Ok(());
        }
        let found = format!(
            "it leaves the {} bytes that plugin `{}` allocated there",
            owner.info.size,
            owner.device.plugin().name()
        );
        let claimed = self.device.id();
        Err(Error::Claim { claimed, found })
    }
}

/// How far into its allocation an address is. A view that the host has of device memory lies elsewhere
/// than the memory does.
pub(crate) fn start_in(word: u64, info: &PointerInfo) -> u64 {
    info.base.as_pointer().map_or(0, |base| {
        let is_elsewhere = word.wrapping_sub(base) >= info.size && info.device_pointer != 0;
        let own = if is_elsewhere {
            info.device_pointer
        } else {
            word
        };
        own.wrapping_sub(base)
    })
}

/// Two claims that cannot both be true.
pub(crate) fn other_owner(claimed: dlpack::Device, owner: &Device) -> Error {
    let found = format!(
        "plugin `{}` owns this address, as memory of `{owner}`",
        owner.plugin().name()
    );
    Error::Claim { claimed, found }
}
