//! Links between the devices, which are sound, absent, or do not deliver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crossdock_sdk::abi::{MemoryKind, Side, Status};
use crossdock_sdk::plugin::{Error, Peer};
use crossdock_sim_engine::{self as sim, Site};

use crate::plugin::{Asynchronous, OWN, lock};

/// What becomes of copies between two devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Links {
    /// Copies arrive, over a link and without.
    #[default]
    Sound,
    /// There is no link; copies arrive.
    Absent,
    /// What goes over a link does not arrive, as behind an IOMMU that drops it.
    Drop,
    /// What a device writes over a link arrives in a mirror that it alone sees.
    Mirror,
    /// Nothing arrives, with a link or without.
    AllDrop,
}

impl Links {
    /// As the setting names them.
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("on", Self::Sound),
        ("off", Self::Absent),
        ("drops", Self::Drop),
        ("mirrors", Self::Mirror),
        ("all_drop", Self::AllDrop),
    ];
}

/// The links that are enabled, each in one direction.
#[derive(Debug)]
pub(crate) struct Peers {
    links: Links,
    enabled: Mutex<BTreeSet<(u32, u32)>>,
    /// The mirror of an allocation, by the device that sees it and the allocation that it stands for.
    mirrors: Mutex<BTreeMap<(u32, u64), u64>>,
}

impl Peers {
    pub(crate) fn new(links: Links) -> Self {
        Self {
            links,
            enabled: Mutex::default(),
            mirrors: Mutex::default(),
        }
    }

    /// How many directions are enabled.
    pub(crate) fn enabled(&self) -> usize {
        lock(&self.enabled).len()
    }

    fn can(&self, device: u32, peer: u32) -> bool {
        device != peer && self.links != Links::Absent
    }

    /// What becomes of a copy that `maker` makes now, where it is between two devices.
    fn fate(&self, maker: u32, dst: &Side, src: &Side) -> Links {
        let is_device = |side: &Side| side.kind == MemoryKind::DEVICE;
        if !is_device(dst) || !is_device(src) || dst.device == src.device {
            return Links::Sound;
        }
        let is_over = |peer| lock(&self.enabled).contains(&(maker, peer));
        let is_linked = match maker {
            maker if maker == dst.device => is_over(src.device),
            maker => maker == src.device && is_over(dst.device),
        };
        match self.links {
            Links::AllDrop => Links::AllDrop,
            links if is_linked => links,
            _ => Links::Sound,
        }
    }

    /// Whether a copy that `maker` makes now will not arrive.
    pub(crate) fn drops(&self, maker: u32, dst: &Side, src: &Side) -> bool {
        !matches!(self.fate(maker, dst, src), Links::Sound | Links::Absent)
    }
}

impl Asynchronous {
    /// The addresses between which bytes are copied in truth. What is dropped leaves the destination as it was.
    pub(crate) fn in_truth(
        &self,
        maker: u32,
        (dst, src): (&Side, &Side),
        (to, from): (u64, u64),
    ) -> Result<(u64, u64), sim::Error> {
        match self.peers.fate(maker, dst, src) {
            Links::Sound | Links::Absent => Ok((to, from)),
            Links::Drop | Links::AllDrop => Ok((to, to)),
            Links::Mirror if maker != dst.device => Ok((self.mirrored(maker, to, true)?, from)),
            Links::Mirror => Ok((to, self.mirrored(maker, from, false)?)),
        }
    }

    /// Where a device sees an address of its peer's; before it has written there, at the address itself.
    fn mirrored(&self, device: u32, address: u64, makes: bool) -> Result<u64, sim::Error> {
        let Some(owner) = self.engine.owner_of(address) else {
            return Ok(address);
        };
        let (key, mirrors) = ((device, owner.id), &self.peers.mirrors);
        let known = lock(mirrors).get(&key).copied();
        let base = match known {
            Some(base) => base,
            None if makes => {
                let (site, kind) = (Site::new(OWN), sim::MemoryKind::Device);
                let base = self.engine.allocate(site, device, owner.bytes, 256, kind)?;
                *lock(mirrors).entry(key).or_insert(base)
            }
            None => return Ok(address),
        };
        Ok(base + (address - owner.base))
    }

    fn check_pair(&self, operation: &'static str, device: u32, peer: u32) -> Result<(), Error> {
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        self.check_index(operation, peer)
    }
}

impl Peer for Asynchronous {
    fn peer_can_access(&self, device: u32, peer: u32) -> Result<bool, Error> {
        self.check_pair("peer_can_access", device, peer)?;
        Ok(self.peers.can(device, peer))
    }

    fn peer_enable(&self, device: u32, peer: u32) -> Result<(), Error> {
        let operation = "peer_enable";
        self.check_pair(operation, device, peer)?;
        self.check_open(operation)?;
        if !self.peers.can(device, peer) {
            let why = format!("device {device} has no link to device {peer}");
            return Err(Error::new(Status::UNSUPPORTED, operation, why));
        }
        lock(&self.peers.enabled).insert((device, peer));
        Ok(())
    }

    fn peer_disable(&self, device: u32, peer: u32) -> Result<(), Error> {
        self.check_pair("peer_disable", device, peer)?;
        lock(&self.peers.enabled).remove(&(device, peer));
        Ok(())
    }
}
