//! The open plugin, its hooks in few words, and the names that the vendor has for its objects.

use std::ffi::c_void;

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{Address, AllocateArgs, CopyArgs, MemoryKind, ProbeState, Side, Status, StreamHandle},
    plugin::{Error, Host, Plugin, read_fixed_text},
};
use opencl3::context::context as cl_context;

pub(crate) const NO_LIMIT: u64 = u64::MAX;
pub(crate) const SOON: u64 = 20_000_000;
pub(crate) const LATE: u64 = 20_000_000_000;

/// The plugin, or the reason why the test has nothing to run on.
pub(crate) fn opened() -> Option<OpenCl> {
    let found = OpenCl::probe().unwrap();
    if found.state == ProbeState::ABSENT {
        println!(
            "skipped: no OpenCL platform ({})",
            read_fixed_text(&found.detail)
        );
        return None;
    }
    // SAFETY: null is a host that offers nothing.
    let host = unsafe { Host::from_raw(std::ptr::null()) };
    Some(OpenCl::open(host).unwrap())
}

pub(crate) fn allocate(plugin: &OpenCl, kind: MemoryKind, size: u64) -> Address {
    let args = AllocateArgs {
        size,
        alignment: 1,
        kind,
        device: 0,
    };
    plugin.allocate(args).unwrap()
}

pub(crate) fn device(address: Address) -> Side {
    Side {
        address,
        kind: MemoryKind::DEVICE,
        device: 0,
    }
}

pub(crate) fn host<T>(bytes: *const T) -> Side {
    let word = bytes.expose_provenance() as u64;
    Side {
        address: Address::pointer(word),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

pub(crate) fn copy(
    plugin: &OpenCl,
    dst: Side,
    src: Side,
    bytes: usize,
    stream: StreamHandle,
) -> Status {
    let args = CopyArgs {
        dst,
        src,
        bytes: bytes as u64,
    };
    // SAFETY: tests pass live memory of that length.
    status(unsafe { plugin.copy(args, stream) })
}

pub(crate) fn upload(plugin: &OpenCl, to: Address, bytes: &[u8]) {
    let done = copy(
        plugin,
        device(to),
        host(bytes.as_ptr()),
        bytes.len(),
        StreamHandle::NONE,
    );
    assert_eq!(done, Status::OK);
}

pub(crate) fn download(plugin: &OpenCl, from: Address, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let to = host(bytes.as_mut_ptr());
    assert_eq!(
        copy(plugin, to, device(from), length, StreamHandle::NONE),
        Status::OK
    );
    bytes
}

pub(crate) fn free(plugin: &OpenCl, address: Address, kind: MemoryKind) -> Status {
    // SAFETY: tests have no work in flight on what they free.
    status(unsafe { plugin.free(address, kind) })
}

pub(crate) fn status<T>(result: Result<T, Error>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::OK)
}

pub(crate) fn counted(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// The plugin's own context, and its first device, as the vendor names them.
pub(crate) fn vendor_names(plugin: &OpenCl) -> (*mut c_void, *mut c_void) {
    let memory = allocate(plugin, MemoryKind::DEVICE, 64);
    let context = plugin.pointer_query(memory).unwrap().context;
    let context = std::ptr::with_exposed_provenance_mut(context as usize);
    let devices = cl_context::get_context_info(context, cl_context::CL_CONTEXT_DEVICES).unwrap();
    let devices: Vec<isize> = devices.into();
    (
        context,
        std::ptr::with_exposed_provenance_mut(devices[0].cast_unsigned()),
    )
}

/// The plugin, or the end of the test.
macro_rules! open_or_skip {
    () => {
        match crate::rig::opened() {
            Some(plugin) => plugin,
            None => return,
        }
    };
}
pub(crate) use open_or_skip;
