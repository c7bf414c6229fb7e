//! Where a tensor goes: a device, and which memory of it.

use std::fmt;

use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack;

use crate::devices::device::Device;
use crate::devices::runtime::Runtime;
use crate::error::{self, Error};
use crate::tensors::memory::Memory;

/// A device, and the kind of its memory where one is asked for. Written as DLPack calls such memory, with
/// the device's own number: `cuda_host:1` is pinned memory of `cuda:1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    device: Device,
    kind: Option<MemoryKind>,
}

impl Target {
    /// Memory of this kind: what is of another one is copied, also on the same device.
    #[must_use]
    pub fn new(device: &Device, kind: MemoryKind) -> Self {
        Self {
            device: device.clone(),
            kind: Some(kind),
        }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// The kind that is asked for. `None`: what is on the device is there, of whatever kind, and new memory
    /// is the device's own.
    #[must_use]
    pub const fn kind(&self) -> Option<MemoryKind> {
        self.kind
    }

    /// The kind of new memory.
    pub(crate) fn new_kind(&self) -> MemoryKind {
        self.kind.unwrap_or(MemoryKind::DEVICE)
    }

    /// As it is written.
    pub(crate) fn id(&self) -> dlpack::Device {
        let id = self.device.id();
        let named = self.kind.map_or(id, |kind| self.device.id_of(kind));
        named.ty.device(id.id)
    }

    /// Whether an alias of this memory is what is asked for. Adopted memory is the device's own.
    pub(crate) fn takes_alias_of(&self, memory: &Memory) -> bool {
        let kind = match memory.kind {
            _ if memory.device != self.device => MemoryKind::DEVICE,
            MemoryKind::HOST => MemoryKind::DEVICE,
            kind => kind,
        };
        self.kind.is_none_or(|asked| asked == kind)
    }
}

impl From<&Device> for Target {
    fn from(device: &Device) -> Self {
        Self {
            device: device.clone(),
            kind: None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id().fmt(f)
    }
}

impl Runtime {
    /// The target of this name: a device, or memory of one, as in `cuda_host:1`.
    ///
    /// # Errors
    /// As [`Runtime::device`], of the device that the memory belongs to.
    pub fn target(&self, id: dlpack::Device) -> Result<Target, Error> {
        match error::memory_called(id.ty) {
            None => Ok(Target::from(&self.device(id)?)),
            Some((owner, kind)) => Ok(Target::new(&self.device(owner.device(id.id))?, kind)),
        }
    }
}
