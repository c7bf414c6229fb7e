//! New memory of a device.

use crossdock_sdk::abi::{Address, AllocateArgs, MemoryKind};

use crate::devices::device::Device;
use crate::error::Error;
use crate::streams::stream::Stream;
use crate::tensors::memory::Memory;
use crate::tensors::owner::Owner;

impl Memory {
    /// Allocates `size` bytes of memory of this kind. No byte needs no plugin.
    pub(crate) fn allocate(device: &Device, size: u64, kind: MemoryKind) -> Result<Self, Error> {
        if size != 0 {
            device.check_listed("allocate")?;
        }
        Self::allocate_for_step(device, size, kind)
    }

    /// The same for a step of a copy or a fill: also on a device that its runtime has retired, whose tensors are
    /// used while another runtime keeps the plugin.
    pub(crate) fn allocate_for_step(
        device: &Device,
        size: u64,
        kind: MemoryKind,
    ) -> Result<Self, Error> {
        let made = |address, owner| Self::new(device.clone(), address, size, kind, owner);
        if size == 0 {
            return Ok(made(Address::default(), Owner::Empty));
        }
        let args = AllocateArgs {
            size,
            alignment: 256,
            kind,
            device: device.index(),
        };
        device.check_not_lost("allocate")?;
        let allocated = device.hooks().allocate(args);
        let address = allocated.inspect_err(|error| device.notice_lost(error))?;
        Ok(made(address, Owner::Allocated))
    }

    /// Allocates device memory that may be used from this point of the stream on; `None` where the stream
    /// cannot do that.
    pub(crate) fn allocate_on(stream: &Stream, size: u64) -> Result<Option<Self>, Error> {
        let device = stream.device();
        if size == 0 || device.hooks().table().async_memory().is_none() {
            return Ok(None);
        }
        device.check_listed("allocate_async")?;
        device.check_not_lost("allocate_async")?;
        let allocated =
            stream.with_submit_lock(|stream| device.hooks().allocate_async(stream, size));
        let kind = MemoryKind::DEVICE;
        match allocated {
            Err(error) if error.is_unsupported() => Ok(None),
            allocated => {
                let allocated = allocated.inspect_err(|error| device.notice_lost(error));
                let (device, owner) = (device.clone(), Owner::Allocated);
                Ok(Some(Self::new(device, allocated?, size, kind, owner)))
            }
        }
    }
}
