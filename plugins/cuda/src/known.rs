//! What the driver says of an address.
#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::c_void;

use crossdock_plugin_gpu::vendor::{Answer, Kind, Known};

use crate::codes::pointer;
use crate::driver::Cuda;
use crate::functions::call;

impl Cuda {
    /// The attributes of an address, all by one call.
    pub(crate) fn attributes(&self, address: u64) -> Answer<Option<Known>> {
        let mut asked = [
            pointer::MEMORY_TYPE,
            pointer::IS_MANAGED,
            pointer::DEVICE_ORDINAL,
            pointer::RANGE_START_ADDR,
            pointer::RANGE_SIZE,
            pointer::BUFFER_ID,
            pointer::CONTEXT,
            pointer::DEVICE_POINTER,
        ];
        // Each value has 8 bytes at most; shorter ones are in the low bytes.
        let mut told = [0_u64; 8];
        let mut places = told
            .each_mut()
            .map(|place| std::ptr::from_mut(place).cast::<c_void>());
        call!(self.cuPointerGetAttributes(8, asked.as_mut_ptr(), places.as_mut_ptr(), address))?;
        let [
            kind,
            is_managed,
            ordinal,
            base,
            size,
            id,
            context,
            device_pointer,
        ] = told;
        let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0);
        let kind = match (kind, low(is_managed) & 0xFF) {
            (pointer::HOST | pointer::DEVICE, 1..) => Kind::Managed,
            (pointer::HOST, _) => Kind::Pinned,
            (pointer::DEVICE, _) => Kind::Device,
            _ => return Ok(None),
        };
        Ok(Some(Known {
            kind,
            ordinal: low(ordinal).cast_signed(),
            base,
            size,
            id,
            context,
            host_pointer: if kind == Kind::Device { 0 } else { address },
            device_pointer,
        }))
    }
}
