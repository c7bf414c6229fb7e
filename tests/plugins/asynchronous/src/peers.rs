//! Links between the devices, which are sound, absent, or lie.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crossdock_sdk::abi::{MemoryKind, Side, Status};
use crossdock_sdk::plugin::{Error, Peer};

use crate::plugin::{Asynchronous, lock};

/// What becomes of copies between two devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Links {
    /// They arrive, over a link and without.
    #[default]
    Sound,
    /// There is no link; they arrive.
    Absent,
    /// What goes over a link does not arrive, as behind an IOMMU that drops it.
    Drop,
    /// Nothing arrives, with a link or without.
    AllDrop,
}

impl Links {
    /// As the setting names them.
    pub(crate) const NAMES: [(&'static str, Self); 4] = [
        ("on", Self::Sound),
        ("off", Self::Absent),
        ("drops", Self::Drop),
        ("all_drop", Self::AllDrop),
    ];
}

/// The links that are enabled, each in one direction.
#[derive(Debug)]
pub(crate) struct Peers {
    links: Links,
    enabled: Mutex<BTreeSet<(u32, u32)>>,
}

impl Peers {
    pub(crate) fn new(links: Links) -> Self {
        Self {
            links,
            enabled: Mutex::default(),
        }
    }

    /// How many directions are enabled.
    pub(crate) fn enabled(&self) -> usize {
        lock(&self.enabled).len()
    }

    fn can(&self, device: u32, peer: u32) -> bool {
        device != peer && self.links != Links::Absent
    }

    /// Whether a copy that `maker` makes now will not arrive.
    pub(crate) fn drops(&self, maker: u32, dst: &Side, src: &Side) -> bool {
        let is_device = |side: &Side| side.kind == MemoryKind::DEVICE;
        if !is_device(dst) || !is_device(src) || dst.device == src.device {
            return false;
        }
        let is_over = |peer| lock(&self.enabled).contains(&(maker, peer));
        match self.links {
            Links::Sound | Links::Absent => false,
            Links::Drop if maker == dst.device => is_over(src.device),
            Links::Drop => maker == src.device && is_over(dst.device),
            Links::AllDrop => true,
        }
    }
}

impl Asynchronous {
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
