//! The plugin, opened without a host, and short words for its hooks.

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, MemoryKind, PointerInfo, Side, StreamHandle,
};
use crossdock_sdk::plugin::{Error, Host, Plugin, Streams as _};

pub(crate) const LIMIT_NS: u64 = 20_000_000_000;
pub(crate) const BYTES: usize = 5000;

pub(crate) fn open() -> Cuda {
    // SAFETY: there is no host.
    let host = unsafe { Host::from_raw(std::ptr::null()) };
    Cuda::open(host).unwrap()
}

pub(crate) fn allocate(
    plugin: &impl Plugin,
    kind: MemoryKind,
    device: u32,
) -> Result<Address, Error> {
    plugin.allocate(AllocateArgs {
        size: BYTES as u64,
        alignment: 256,
        kind,
        device,
    })
}

pub(crate) fn free(plugin: &impl Plugin, address: Address, kind: MemoryKind) -> Result<(), Error> {
    // SAFETY: the tests free what they allocated, when its work is over.
    unsafe { plugin.free(address, kind) }
}

pub(crate) fn query(cuda: &Cuda, address: u64) -> PointerInfo {
    cuda.pointer_query(Address::pointer(address)).unwrap()
}

pub(crate) const fn host(address: u64) -> Side {
    Side {
        address: Address::pointer(address),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

pub(crate) const fn device(address: u64, device: u32) -> Side {
    Side {
        address: Address::pointer(address),
        kind: MemoryKind::DEVICE,
        device,
    }
}

/// Copies to a device's memory.
pub(crate) fn upload(
    plugin: &impl Plugin,
    dst: Side,
    bytes: &[u8],
    stream: StreamHandle,
) -> Result<(), Error> {
    let args = CopyArgs {
        dst,
        src: host(bytes.as_ptr().expose_provenance() as u64),
        bytes: bytes.len() as u64,
    };
    // SAFETY: the tests keep both sides until the copy is done.
    unsafe { plugin.copy(args, stream) }
}

/// Copies from a device's memory.
pub(crate) fn download(
    plugin: &impl Plugin,
    bytes: &mut [u8],
    src: Side,
    stream: StreamHandle,
) -> Result<(), Error> {
    let args = CopyArgs {
        dst: host(bytes.as_mut_ptr().expose_provenance() as u64),
        src,
        bytes: bytes.len() as u64,
    };
    // SAFETY: the tests keep both sides until the copy is done.
    unsafe { plugin.copy(args, stream) }
}

/// Bytes go to memory and come back, on a stream or without one.
pub(crate) fn round_trip(cuda: &Cuda, side: Side, stream: StreamHandle) -> Result<(), Error> {
    let (up, mut down) = ([7_u8; BYTES], [0_u8; BYTES]);
    let there = upload(cuda, side, &up, stream);
    let back = there.and_then(|()| download(cuda, &mut down, side, stream));
    let ended = if stream.is_none() {
        Ok(())
    } else {
        cuda.stream_synchronize(stream, LIMIT_NS)
    };
    back.and(ended)?;
    assert_eq!(down, up);
    Ok(())
}
