//! What tensors hold, as compact bytes of the caller's.
#![expect(unsafe_code, reason = "lends memory that a copy initialises")]

use std::mem::MaybeUninit;

use crossdock_sdk::dlpack::Layout;

use crate::copies::{elements, transfer};
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::host_memory::host_length;
use crate::hooks::panics::lend;
use crate::tensors::tensor::Tensor;

impl Tensor {
    /// Allocates a compact tensor and fills it with `bytes`.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the number of bytes is not the layout's; [`Error::Hook`].
    pub fn from_bytes(device: &Device, layout: &Layout, bytes: &[u8]) -> Result<Self, Error> {
        let tensor = Self::empty(device, layout)?;
        tensor.check_length("write a tensor", bytes.len())?;
        transfer::write(&tensor, bytes)?;
        Ok(tensor)
    }

    /// Its elements as compact bytes, read through the device plugin's own copy hook.
    ///
    /// # Errors
    /// [`Error::Hook`]; [`Error::Exhausted`] where the host has no room for them.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let length = host_length(self.nbytes())?;
        let mut bytes = Vec::new();
        let none = |error| Error::exhausted("make host memory for a tensor", error);
        bytes.try_reserve_exact(length).map_err(none)?;
        let (mut bytes, ()) = lend(bytes, |bytes| {
            let room = bytes.spare_capacity_mut();
            elements::read_into(self, room.get_mut(..length).unwrap_or_default())
        })?;
        // SAFETY: the copy wrote `length` bytes, which are the capacity at least.
        unsafe { bytes.set_len(length) };
        Ok(bytes)
    }

    /// Reads its elements as compact bytes into memory of the caller's.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the number of bytes is wrong; as [`Tensor::read`]. After `PANIC` nobody knows
    /// whether the plugin still writes `bytes`.
    pub fn read_into(&self, bytes: &mut [u8]) -> Result<(), Error> {
        self.check_length("read a tensor", bytes.len())?;
        let length = bytes.len();
        let room = std::ptr::from_mut(bytes).cast::<MaybeUninit<u8>>();
        // SAFETY: the same bytes, which the copy hook only initialises.
        elements::read_into(self, unsafe {
            std::slice::from_raw_parts_mut(room, length)
        })
    }

    /// Replaces its elements by compact `bytes`, and nothing beside them.
    ///
    /// Threads may write views of one memory at a time whose elements share no byte: elements of less
    /// than a byte share one with their neighbours.
    ///
    /// # Errors
    /// [`Error::Misuse`] when it is read-only, its elements overlap (a broadcast, a sliding window)
    /// or the number of bytes is wrong; [`Error::Hook`].
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        const OPERATION: &str = "write a tensor";
        self.check_writable(OPERATION)?;
        self.check_length(OPERATION, bytes.len())?;
        elements::write(self, bytes)
    }
}
