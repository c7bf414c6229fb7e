//! What the runtime says of an address.
#![expect(unsafe_code, reason = "calls the runtime")]

use crossdock_plugin_gpu::vendor::{Answer, Kind, Known};

use crate::codes::{self, memory};
use crate::context::context_of_device;
use crate::driver::Hip;
use crate::functions::call;
use crate::structs::Attributes;

impl Hip {
    /// The attributes of an address, by one call each for the kind, the range and the number: the call that answers
    /// several at once (`hipDrvPointerGetAttributes`) writes sizes as 32 bits and calls managed memory the host's.
    pub(crate) fn attributes(&self, address: u64) -> Answer<Option<Known>> {
        let mut told = Attributes::default();
        match call!(self.hipPointerGetAttributes(&raw mut told, address)) {
            // Versions differ in whether an address of nobody's is an error.
            Err(code)
                if [codes::INVALID_VALUE, codes::INVALID_DEVICE_POINTER].contains(&code.number) =>
            {
                return Ok(None);
            }
            answered => answered?,
        }
        let Some(kind) = kind_of(&told) else {
            return Ok(None);
        };
        let (base, size) = self.range(address);
        let host_pointer = match (kind, told.host_pointer) {
            (Kind::Device, _) => 0,
            (_, 0) => address,
            (_, host) => host,
        };
        Ok(Some(Known {
            kind,
            ordinal: told.device,
            base,
            size,
            id: self.number(address),
            context: context_of_device(told.device),
            host_pointer,
            device_pointer: told.device_pointer,
        }))
    }

    /// The allocation around an address; of no size where the runtime does not say, as for registered memory.
    fn range(&self, address: u64) -> (u64, u64) {
        let (mut base, mut size) = (0_u64, 0_usize);
        let found = call!(self.hipMemGetAddressRange(&raw mut base, &raw mut size, address));
        let is_around = address.checked_sub(base).is_some_and(|at| at < size as u64);
        if found.is_ok() && is_around {
            (base, size as u64)
        } else {
            (address, 0)
        }
    }

    /// The allocation's number, or 0.
    fn number(&self, address: u64) -> u64 {
        // It has 32 bits in some versions: the low ones.
        let mut number = 0;
        let key = codes::BUFFER_ID;
        let told = call!(self.hipPointerGetAttribute?(&raw mut number, key, address));
        told.map_or(0, |()| number)
    }
}

fn kind_of(told: &Attributes) -> Option<Kind> {
    match (told.kind, told.is_managed) {
        (memory::MANAGED, _) | (memory::HOST | memory::DEVICE, 1..) => Some(Kind::Managed),
        (memory::HOST, _) => Some(Kind::Pinned),
        (memory::DEVICE, _) => Some(Kind::Device),
        _ => None,
    }
}
