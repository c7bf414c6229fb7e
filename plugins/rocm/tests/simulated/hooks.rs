//! The plugin, opened without a host, and short words for its hooks; the runtime beside it.

use crossdock_plugin_rocm::Plugin as Rocm;
use crossdock_sdk::abi::{Address, AllocateArgs, CopyArgs, MemoryKind, Side, StreamHandle};
use crossdock_sdk::plugin::{Error, Host, Plugin as _, Streams as _};
use libloading::Library;

pub(crate) const BYTES: usize = 5000;
pub(crate) const LIMIT_NS: u64 = 20_000_000_000;

/// Calls a function of a library by its name.
macro_rules! call {
    ($library:ident.$name:ident($($argument:expr => $type:ty),* $(,)?) -> $answer:ty) => {{
        // SAFETY: the simulator has the function, with the types of the vendor's header.
        let function = unsafe {
            $library.get::<unsafe extern "C" fn($($type),*) -> $answer>(stringify!($name))
        }.unwrap();
        // SAFETY: the arguments are live objects of the runtime's and places of this function's own.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use call;

/// The simulated runtime.
pub(crate) fn runtime() -> Library {
    // SAFETY: the simulator's initialisers touch nothing of ours.
    unsafe { Library::new("libamdhip64.so") }.unwrap()
}

pub(crate) fn open() -> Rocm {
    // SAFETY: there is no host.
    let host = unsafe { Host::from_raw(std::ptr::null()) };
    Rocm::open(host).unwrap()
}

pub(crate) fn allocate(rocm: &Rocm, kind: MemoryKind, device: u32) -> Result<Address, Error> {
    rocm.allocate(AllocateArgs {
        size: BYTES as u64,
        alignment: 256,
        kind,
        device,
    })
}

pub(crate) fn free(rocm: &Rocm, address: Address, kind: MemoryKind) -> Result<(), Error> {
    // SAFETY: the tests free what they allocated, when its work is over.
    unsafe { rocm.free(address, kind) }
}

pub(crate) const fn side(address: u64, kind: MemoryKind, device: u32) -> Side {
    Side {
        address: Address::pointer(address),
        kind,
        device,
    }
}

/// Bytes go to memory of a device and come back, on a stream or without one.
pub(crate) fn round_trip(
    rocm: &Rocm,
    address: u64,
    device: u32,
    stream: StreamHandle,
) -> Result<(), Error> {
    let (up, mut down) = ([7_u8; BYTES], [0_u8; BYTES]);
    let there = side(address, MemoryKind::DEVICE, device);
    let host = |at: usize| side(at as u64, MemoryKind::HOST, 0);
    let copy = |dst, src| {
        let bytes = BYTES as u64;
        // SAFETY: both sides live until the copy is done.
        unsafe { rocm.copy(CopyArgs { dst, src, bytes }, stream) }
    };
    let done = copy(there, host(up.as_ptr().expose_provenance()));
    let done = done.and_then(|()| copy(host(down.as_mut_ptr().expose_provenance()), there));
    let ended = if stream.is_none() {
        Ok(())
    } else {
        rocm.stream_synchronize(stream, LIMIT_NS)
    };
    done.and(ended)?;
    assert_eq!(down, up);
    Ok(())
}
