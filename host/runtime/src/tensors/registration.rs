//! Host memory of a tensor that is locked for a device while somebody holds the registration.
#![expect(unsafe_code, reason = "lends host memory to a register hook")]

use crossdock_sdk::abi::{Address, Capabilities, MemoryKind, Status};

use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::lend;
use crate::tensors::memory::Memory;
use crate::tensors::owner::{Owner, Pointer};
use crate::tensors::tensor::Tensor;

/// Host memory that is locked for a device: copies between the two are fast, and one on a stream returns
/// before it is made.
///
/// It keeps the memory. Dropped, it ends: the memory is unlocked once no work uses it, for which the drop does
/// not wait. Where the device is lost, or another one that used the memory, it stays locked: it is kept, and a
/// counted leak.
#[derive(Debug)]
pub struct Registration(
    /// A view of the memory, which ends as views do.
    Memory,
);

impl Registration {
    /// The device that the memory is locked for.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }
}

impl Tensor {
    /// Locks the host memory that this tensor is a view of, all of it, for a device. The memory stays where
    /// it is and whose it is; a tensor of it may be read-only.
    ///
    /// # Errors
    /// [`Error::Hook`]: `UNSUPPORTED` where the host does not reach the memory by its address, or the
    /// device locks none; `CONFLICT` where the device's plugin knows a part of it already; `PERMISSION`
    /// where the system or the driver does not lock it; what else its plugin answers. [`Error::Claim`] where the memory is called the host's and is not.
    pub fn register(&self, device: &Device) -> Result<Registration, Error> {
        const OPERATION: &str = "register_host";
        let memory = self.memory();
        memory.check_claim()?;
        let refuse = |why| Err(device.refusal(OPERATION, Status::UNSUPPORTED, why));
        if !device.capabilities().contains(Capabilities::REGISTER) {
            return refuse(format!("`{device}` locks no host memory"));
        }
        let of_host = memory.address.as_pointer();
        let Some(word) = of_host.filter(|_| memory.reach().by_host) else {
            let own = &memory.device;
            return refuse(format!("the host does not reach this memory of `{own}`"));
        };
        device.check_listed(OPERATION)?;
        let (address, kind) = (Address::pointer(word), MemoryKind::HOST);
        let registered = |owner| Memory::new(device.clone(), address, memory.size, kind, owner);
        if memory.size == 0 {
            return Ok(Registration(registered(Owner::Empty)));
        }
        let word = usize::try_from(word)
            .map_err(|error| Error::misuse("register a tensor", error.to_string()))?;
        let pointer = std::ptr::with_exposed_provenance_mut(word);
        let (hooks, index) = (device.hooks(), device.index());
        // SAFETY: the tensor that the owner keeps has these bytes until the registration has ended.
        let locked = lend(self.keeper().clone(), |_kept| unsafe {
            hooks.register_host(index, pointer, memory.size)
        });
        let (of, ()) = locked.map_err(|error| known_already(error, device))?;
        let pointer = Pointer(pointer);
        Ok(Registration(registered(Owner::Registered { of, pointer })))
    }
}

/// The plugin's answer, with what it means here where memory was locked before.
fn known_already(mut error: Error, device: &Device) -> Error {
    if let Error::Hook {
        status: Status::CONFLICT,
        message,
        ..
    } = &mut error
    {
        *message = format!("`{device}` knows a part of this memory already: {message}");
    }
    error
}
