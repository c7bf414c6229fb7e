//! Which devices, memory and objects are which vendor's. The engine is one, so that a race between two vendors is one
//! race; each vendor's functions refuse what is another one's.

use std::ffi::c_int;

use crossdock_sim_engine::{MemoryKind, Owner};

use super::codes::Code;
use super::entry::{Answer, Call};
use crate::process::Process;

/// A vendor, as its clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Face {
    /// NVIDIA's driver.
    Cuda,
    /// AMD's HIP runtime.
    Hip,
}

impl Face {
    /// Its index among the engine's vendors.
    pub(crate) const fn vendor(self) -> u32 {
        match self {
            Self::Cuda => 0,
            Self::Hip => 1,
        }
    }

    /// The face of a device of the engine's.
    pub(crate) fn of(process: &Process, device: u32) -> Self {
        match process.engine.config().vendor_of(device) {
            0 => Self::Cuda,
            _ => Self::Hip,
        }
    }
}

impl Call {
    /// The engine's numbers of the devices that a client sees, in its order.
    pub(crate) fn devices(&self) -> &[u32] {
        self.process.devices(self.face)
    }

    /// The engine's number of a client's device.
    pub(crate) fn device(&self, ordinal: c_int) -> Answer<u32> {
        let at = usize::try_from(ordinal).ok().ok_or(Code::INVALID_DEVICE)?;
        let device = self.devices().get(at).copied();
        device.ok_or(Code::INVALID_DEVICE)
    }

    /// The client's number of a device; -1 for one that it does not see.
    pub(crate) fn ordinal(&self, device: u32) -> c_int {
        let at = self.devices().iter().position(|own| *own == device);
        at.and_then(|at| c_int::try_from(at).ok()).unwrap_or(-1)
    }

    /// Whose memory an address is in, as this vendor knows it.
    pub(crate) fn owner_of(&self, address: u64) -> Option<Owner> {
        self.process.engine.owner_for(self.face.vendor(), address)
    }

    /// Whether this vendor gives out an address, or knows it as registered. What it does not know is the host's own.
    pub(crate) fn is_known(&self, address: u64) -> bool {
        self.process.engine.is_known_to(self.face.vendor(), address)
    }

    /// Refuses memory that only another vendor's devices reach. What another one pinned, or lets migrate, the host
    /// reaches too: to this one it is the host's own.
    pub(crate) fn refuse_others(&self, addresses: &[u64]) -> Answer {
        let engine = &self.process.engine;
        let is_out_of_reach = |address: &u64| {
            let is_others = engine.is_known(*address) && !self.is_known(*address);
            let owner = engine.owner_of(*address);
            let is_hosts = owner.is_some_and(|owner| owner.kind != MemoryKind::Device);
            is_others && !is_hosts
        };
        if addresses.iter().any(is_out_of_reach) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(())
    }
}
