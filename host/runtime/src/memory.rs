//! Memory with an owner: what a tensor views, and how it is given back.
#![expect(unsafe_code, reason = "frees and adopts memory through hooks")]

use std::ffi::c_void;
use std::sync::Arc;

use crossdock_sdk::abi::{Address, AllocateArgs, MemoryKind, Side};
use crossdock_sdk::dlpack::Received;

use crate::device::Device;
use crate::error::Error;
use crate::life;

/// The owner of a tensor's bytes on one device.
pub(crate) struct Memory {
    pub(crate) device: Device,
    /// First byte.
    pub(crate) address: Address,
    /// Length in bytes; 0 has no address.
    pub(crate) size: u64,
    pub(crate) kind: MemoryKind,
    pub(crate) read_only: bool,
    owner: Owner,
}

/// Host bytes that somebody else owns: a mapped file, a vector.
pub type HostOwner = Box<dyn AsRef<[u8]> + Send + Sync>;

/// What is given back when the memory is dropped.
#[expect(
    clippy::large_enum_variant,
    reason = "an import allocates once: this lies in its `Arc`"
)]
enum Owner {
    /// Nothing: no byte.
    Empty,
    /// Allocated from the device's plugin.
    Allocated,
    /// A tensor of others; dropping it runs its deleter.
    Received { _tensor: Received },
    /// Host bytes of others.
    Host { _owner: HostOwner },
    /// An alias that the plugin made of other memory.
    Adopted { _of: Arc<Memory> },
    /// A host view of device memory.
    Mapped { of: Arc<Memory>, pointer: Pointer },
}

/// An address that is only ever given back to the plugin it came from.
struct Pointer(*mut c_void);

// SAFETY: never dereferenced here; hooks may be called from any thread.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

impl Memory {
    /// Allocates `size` bytes of device memory. No byte needs no plugin.
    pub(crate) fn allocate(device: &Device, size: u64) -> Result<Self, Error> {
        if size == 0 {
            return Ok(Self::new(
                device,
                Address::default(),
                0,
                MemoryKind::DEVICE,
                Owner::Empty,
            ));
        }
        let args = AllocateArgs {
            size,
            alignment: 256,
            kind: MemoryKind::DEVICE,
            device: device.index(),
        };
        let address = device.hooks().allocate(args)?;
        Ok(Self::new(
            device,
            address,
            size,
            MemoryKind::DEVICE,
            Owner::Allocated,
        ))
    }

    /// Takes a tensor of others whose memory is `size` bytes from `address`.
    pub(crate) fn received(
        device: &Device,
        (address, size): (Address, u64),
        kind: MemoryKind,
        tensor: Received,
        read_only: bool,
    ) -> Self {
        let owner = Owner::Received { _tensor: tensor };
        Self::new(device, address, size, kind, owner).with_read_only(read_only)
    }

    /// Takes host bytes, read-only: their owner lends them as a shared slice.
    pub(crate) fn host(device: &Device, owner: HostOwner) -> Self {
        let bytes = (*owner).as_ref();
        let address = Address::pointer(bytes.as_ptr().expose_provenance() as u64);
        let size = bytes.len() as u64;
        let owner = Owner::Host { _owner: owner };
        Self::new(device, address, size, MemoryKind::HOST, owner).with_read_only(true)
    }

    /// Makes memory of `device` that aliases host-accessible memory of another device.
    pub(crate) fn adopt(device: &Device, of: &Arc<Self>) -> Result<Self, Error> {
        // SAFETY: the new memory holds `of`, so the foreign bytes outlive the adoption.
        let address = unsafe {
            device
                .hooks()
                .adopt(device.index(), of.address, MemoryKind::HOST, of.size)
        }?;
        let owner = Owner::Adopted {
            _of: Arc::clone(of),
        };
        let adopted = Self::new(device, address, of.size, MemoryKind::DEVICE, owner);
        Ok(adopted.with_read_only(of.read_only))
    }

    /// Makes host memory that is a view of device memory.
    pub(crate) fn map(host: &Device, of: &Arc<Self>) -> Result<Self, Error> {
        let pointer = of
            .device
            .hooks()
            .map(of.device.index(), of.address, of.size)?;
        let address = Address::pointer(pointer.expose_provenance() as u64);
        let owner = Owner::Mapped {
            of: Arc::clone(of),
            pointer: Pointer(pointer),
        };
        let mapped = Self::new(host, address, of.size, MemoryKind::HOST, owner);
        Ok(mapped.with_read_only(of.read_only))
    }

    fn new(device: &Device, address: Address, size: u64, kind: MemoryKind, owner: Owner) -> Self {
        Self {
            device: device.clone(),
            address,
            size,
            kind,
            read_only: false,
            owner,
        }
    }

    const fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// This memory, `offset` bytes in, as one side of a copy by its own plugin.
    pub(crate) fn side(&self, offset: u64) -> Side {
        let address = self.address.advanced(offset).unwrap_or(self.address);
        Side {
            address,
            kind: self.kind,
            device: self.device.index(),
        }
    }

    /// The host's address of byte `offset`, where the host can dereference it.
    pub(crate) fn host_address(&self, offset: u64) -> Option<u64> {
        let reachable = self.kind == MemoryKind::HOST || self.device.is_host_accessible();
        if reachable {
            self.address.advanced(offset)?.as_pointer()
        } else {
            None
        }
    }

    fn give_back(&self) -> Result<(), Error> {
        match &self.owner {
            Owner::Empty | Owner::Received { .. } | Owner::Host { .. } => Ok(()),
            Owner::Allocated => {
                // SAFETY: this is the last user, and every copy was done when it returned.
                unsafe { self.device.hooks().free(self.address, self.kind) }
            }
            Owner::Adopted { .. } => self
                .device
                .hooks()
                .release_adopted(self.device.index(), self.address),
            Owner::Mapped { of, pointer } => {
                let hooks = of.device.hooks();
                // SAFETY: `map` gave this pointer for this address, and this is its last user.
                unsafe { hooks.unmap(of.device.index(), of.address, pointer.0) }
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if life::exiting() || self.device.hooks().is_forked() {
            life::count_leak();
            return;
        }
        if let Err(error) = self.give_back() {
            log::error!(target: "crossdock::memory", "{error}: {}", error.why());
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("device", &self.device.id())
            .field("address", &self.address)
            .field("size", &self.size)
            .field("kind", &self.kind)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
