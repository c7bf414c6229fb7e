//! Host memory as hooks take it.

use crossdock_sdk::abi::{Address, MemoryKind, Side};

use crate::error::Error;

/// Host memory at `address`, as a side of a copy.
pub(crate) fn host_side(address: u64) -> Side {
    Side {
        address: Address::pointer(address),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

/// A number of bytes as the length of a piece of host memory.
///
/// # Errors
/// [`Error::Misuse`] where the host has no such lengths.
pub(crate) fn host_length(bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes)
        .map_err(|error| Error::misuse("copy a tensor to the host", error.to_string()))
}

/// The address of host memory; what is made of it later may reach the memory.
pub(crate) fn address_of(pointer: *mut u8) -> u64 {
    pointer.expose_provenance() as u64
}
