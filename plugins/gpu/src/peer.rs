//! Direct links between two devices of the driver.
//!
//! What one device reaches of another is all memory of its own context, and the pool's memory where the pool says
//! so. Others in the process share the primary contexts: a link that they enabled is theirs to end.

use crossdock_sdk::plugin::{Error, Peer};

use crate::device::locked;
use crate::fault::Fault;
use crate::plugin::Gpu;
use crate::vendor::Vendor;

impl<V: Vendor> Peer for Gpu<V> {
    fn peer_can_access(&self, device: u32, peer: u32) -> Result<bool, Error> {
        Ok(self.reaches(device, peer, "peer_can_access")?)
    }

    fn peer_enable(&self, device: u32, peer: u32) -> Result<(), Error> {
        let operation = "peer_enable";
        self.check(operation)?;
        if !self.reaches(device, peer, operation)? {
            let why = format!("the driver has no link from device {device} to device {peer}");
            return Err(Fault::unsupported(operation, why).into());
        }
        let (own, other) = (
            self.device(device, operation)?,
            self.device(peer, operation)?,
        );
        let there = other.home(operation)?;
        let inside = own.enter(operation)?;
        let is_new = inside.ask(|vendor| vendor.enable_peer(there.context))?;
        if is_new {
            locked(&self.links).insert((device, peer));
        }
        let shared = there.pool.map_or(Ok(()), |pool| {
            inside.ask(|vendor| vendor.share_pool(pool, own.ordinal, true))
        });
        if let Err(fault) = shared {
            drop(inside);
            // What cannot be reached whole is not enabled.
            self.end_link(device, peer, operation)?;
            return Err(fault.into());
        }
        Ok(())
    }

    fn peer_disable(&self, device: u32, peer: u32) -> Result<(), Error> {
        let operation = "peer_disable";
        let (own, other) = (
            self.device(device, operation)?,
            self.device(peer, operation)?,
        );
        own.check(operation)?;
        // Without a context nothing was enabled.
        if let Some(pool) = other.known_home().and_then(|there| there.pool)
            && device != peer
            && own.known_home().is_some()
        {
            let inside = own.enter(operation)?;
            inside.ask(|vendor| vendor.share_pool(pool, own.ordinal, false))?;
        }
        Ok(self.end_link(device, peer, operation)?)
    }
}

impl<V: Vendor> Gpu<V> {
    /// Whether the driver says that work of a device reaches memory of another one.
    fn reaches(&self, device: u32, peer: u32, operation: &'static str) -> Result<bool, Fault> {
        let (own, other) = (
            self.device(device, operation)?,
            self.device(peer, operation)?,
        );
        own.check(operation)?;
        other.check(operation)?;
        if device == peer {
            return Ok(false);
        }
        let reaches = own.driver.vendor().can_reach(own.ordinal, other.ordinal);
        reaches.map_err(|code| own.fault(code))
    }

    /// Ends a link that was enabled here, and no other.
    fn end_link(&self, device: u32, peer: u32, operation: &'static str) -> Result<(), Fault> {
        if !locked(&self.links).remove(&(device, peer)) {
            return Ok(());
        }
        let there = self.device(peer, operation)?.home(operation)?;
        let inside = self.device(device, operation)?.enter(operation)?;
        inside
            .ask(|vendor| vendor.disable_peer(there.context))
            .inspect_err(|_| {
                locked(&self.links).insert((device, peer));
            })
    }

    /// Ends all that were enabled here, before the plugin is closed.
    pub(crate) fn end_links(&self) {
        let links: Vec<_> = locked(&self.links).iter().copied().collect();
        for (device, peer) in links {
            // A device that is lost has none.
            let _ended = self.end_link(device, peer, "close");
        }
    }
}
