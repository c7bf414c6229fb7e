//! Claims of host memory. What a producer calls the host's may be a device's, and some plugins have to
//! ask their driver to know: they are asked once a memory, before it is first used, and not at its import.
//!
//! Copies ([`order::run`](crate::order::run)), routes, exports, waits and registrations all come here first.

use std::sync::atomic::{AtomicU32, Ordering};

use crossdock_sdk::abi::{PointerFlags, PointerInfo};
use crossdock_sdk::dlpack;

use crate::device::Device;
use crate::error::Error;
use crate::memory::Memory;
use crate::pointer_query::{Asked, Claim};

/// A producer's claim that memory is the host's, and the newest plugin that was asked about it, by its
/// number among those that ask their driver ([`PluginIndex::add`](crate::index::PluginIndex::add)).
#[derive(Debug)]
pub(crate) struct HostClaim(AtomicU32);

impl HostClaim {
    /// Nobody was asked who has to ask a driver.
    pub(crate) const fn unchecked() -> Self {
        Self(AtomicU32::new(0))
    }

    /// There is nobody to ask: the owner is known.
    pub(crate) const fn settled() -> Self {
        Self(AtomicU32::new(u32::MAX))
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
        match self.device.routing().newest_driver() {
            0 => Ok(()),
            _ => self.check_claim_of_root(),
        }
    }

    fn check_claim_of_root(&self) -> Result<(), Error> {
        let root = self.root();
        let Some(HostClaim(asked)) = root.claim() else {
            return Ok(());
        };
        let newest = root.device.routing().newest_driver();
        let asked_before = asked.load(Ordering::Acquire);
        if asked_before >= newest {
            return Ok(());
        }
        root.ask_drivers(asked_before)?;
        asked.fetch_max(newest, Ordering::AcqRel);
        Ok(())
    }

    #[cold]
    fn ask_drivers(&self, asked_before: u32) -> Result<(), Error> {
        // Without its runtime there is nobody to ask.
        let Some(runtime) = self.device.routing().runtime() else {
            return Ok(());
        };
        let asked = Asked::drivers_behind(asked_before);
        match runtime.owner_of(self.address.word, asked, None)? {
            Some(owner) => self.check_is_hosts(&owner),
            None => Ok(()),
        }
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
