//! Memory with one address beside memory objects: of ours, and unified shared memory of others.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr::null_mut,
};

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{Address, FillArgs, MemoryKind, PointerFlags, Side, Status, StreamHandle},
    plugin::{Fill, Map, Plugin, Streams, Wrap},
};
use opencl3::{command_queue as cl_queue, context::context as cl_context, device as cl_device};

use crate::rig::{
    LATE, allocate, copy, counted, device, free, host, open_or_skip, status, upload, vendor_names,
};

const SIZE: usize = 4096;
const NOW: StreamHandle = StreamHandle::NONE;

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type OfContext = unsafe extern "C" fn(*mut c_void, *const u64, usize, u32, *mut i32) -> *mut c_void;
type OfDevice =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *const u64, usize, u32, *mut i32) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32;

/// A function of Intel's extension; none where the first device's platform lacks it.
fn extension<T: Copy>(device: *mut c_void, name: &CStr) -> Option<T> {
    let platform = cl_device::get_device_info(device, cl_device::CL_DEVICE_PLATFORM).unwrap();
    let platform = std::ptr::with_exposed_provenance_mut(isize::from(platform).cast_unsigned());
    // SAFETY: a text, and a library that is open already.
    let library = unsafe { libc::dlopen(c"libOpenCL.so.1".as_ptr(), libc::RTLD_NOW) };
    let symbol = c"clGetExtensionFunctionAddressForPlatform";
    // SAFETY: an open library, and a text.
    let lookup = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    // SAFETY: the function's type is the one in OpenCL 1.2.
    let lookup = unsafe { std::ptr::from_ref(&lookup).cast::<Lookup>().read() };
    // SAFETY: a live platform, and a text.
    let found = unsafe { lookup(platform, name.as_ptr()) };
    // SAFETY: callers name the type that the extension declares for `name`.
    (!found.is_null()).then(|| unsafe { std::ptr::from_ref(&found).cast::<T>().read() })
}

/// What another user of the driver calls.
struct Others {
    context: *mut c_void,
    device: *mut c_void,
    host: OfContext,
    of_device: OfDevice,
    shared: OfDevice,
    free: Free,
}

impl Others {
    /// None where the first platform has no unified shared memory.
    fn new(context: *mut c_void, device: *mut c_void) -> Option<Self> {
        let found = (|| {
            Some(Self {
                context,
                device,
                host: extension(device, c"clHostMemAllocINTEL")?,
                of_device: extension(device, c"clDeviceMemAllocINTEL")?,
                shared: extension(device, c"clSharedMemAllocINTEL")?,
                free: extension(device, c"clMemBlockingFreeINTEL")?,
            })
        })();
        if found.is_none() {
            println!("skipped: the first platform has no unified shared memory");
        }
        found
    }

    fn make(&self, kind: MemoryKind) -> Address {
        let mut code = 0;
        let (context, device, none) = (self.context, self.device, std::ptr::null());
        let (bytes, out) = (SIZE, &raw mut code);
        let raw = match kind {
            // SAFETY: a live context, and a place for the code.
            MemoryKind::PINNED => unsafe { (self.host)(context, none, bytes, 0, out) },
            // SAFETY: the same, and a device of it.
            MemoryKind::DEVICE => unsafe { (self.of_device)(context, device, none, bytes, 0, out) },
            // SAFETY: as above.
            _ => unsafe { (self.shared)(context, device, none, bytes, 0, out) },
        };
        assert_eq!(code, 0);
        Address::pointer(raw.expose_provenance() as u64)
    }

    fn end(&self, memory: Address) {
        let raw = std::ptr::with_exposed_provenance_mut(usize::try_from(memory.word).unwrap());
        // SAFETY: memory of this context, which nobody uses any more.
        assert_eq!(unsafe { (self.free)(self.context, raw) }, 0);
    }
}

const KINDS: [MemoryKind; 3] = [MemoryKind::PINNED, MemoryKind::DEVICE, MemoryKind::MANAGED];

fn side(address: Address, offset: u64, kind: MemoryKind) -> Side {
    Side {
        kind,
        ..device(address.advanced(offset).unwrap())
    }
}

fn filled(plugin: &OpenCl, dst: Side, bytes: u64, pattern: &[u8]) -> Status {
    let mut args = FillArgs {
        dst,
        bytes,
        pattern: [0; 16],
        pattern_bytes: u32::try_from(pattern.len()).unwrap(),
        reserved: 0,
    };
    args.pattern[..pattern.len()].copy_from_slice(pattern);
    // SAFETY: tests pass live memory of that length.
    status(unsafe { plugin.fill(args, NOW) })
}

/// Copies to and from memory with an address, at an offset, beside host memory and an object, and past
/// its end.
fn is_used(plugin: &OpenCl, memory: Address, kind: MemoryKind, stream: StreamHandle) {
    let object = allocate(plugin, MemoryKind::DEVICE, SIZE as u64);
    let (bytes, mut back) = (counted(SIZE), vec![0_u8; SIZE]);
    let at = |offset| side(memory, offset, kind);
    let in_object = |offset| side(object, offset, MemoryKind::DEVICE);
    let copied = |dst, src, length| {
        let done = copy(plugin, dst, src, length, stream);
        if done == Status::OK && !stream.is_none() {
            plugin.stream_synchronize(stream, LATE).unwrap();
        }
        done
    };
    assert_eq!(copied(at(0), host(bytes.as_ptr()), SIZE), Status::OK);
    // Through an object, each at a place of its own.
    upload(plugin, object, &[0; SIZE]);
    assert_eq!(copied(in_object(100), at(40), 1000), Status::OK);
    assert_eq!(copied(at(2000), in_object(100), 1000), Status::OK);
    assert_eq!(copied(at(3100), at(0), 500), Status::OK);
    assert_eq!(copied(host(back.as_mut_ptr()), at(0), SIZE), Status::OK);
    let mut wanted = bytes.clone();
    wanted.copy_within(40..1040, 2000);
    wanted.copy_within(0..500, 3100);
    assert!(back == wanted, "{kind:?}");
    assert_eq!(filled(plugin, at(8), 16, &[1, 2, 3, 4]), Status::OK);
    assert_eq!(
        filled(plugin, at(9), 16, &[1, 2, 3, 4]),
        Status::UNSUPPORTED
    );
    assert_eq!(copied(host(back.as_mut_ptr()), at(0), 32), Status::OK);
    assert_eq!(back[8..24], [1, 2, 3, 4].repeat(4));
    assert_eq!((back[7], back[24]), (bytes[7], bytes[24]));
    for (place, length) in [(0, SIZE + 1), (4000, 97)] {
        let past = copied(host(vec![0_u8; SIZE + 1].as_mut_ptr()), at(place), length);
        assert_eq!(past, Status::INVALID, "{kind:?}");
    }
    assert_eq!(filled(plugin, at(4000), 97, &[0]), Status::INVALID);
    let mapped = plugin.map(0, memory, SIZE as u64);
    assert_eq!(status(mapped), Status::UNSUPPORTED);
    assert_eq!(free(plugin, object, MemoryKind::DEVICE), Status::OK);
}

#[test]
fn managed_memory_of_ours_is_used_beside_objects() {
    let plugin = open_or_skip!();
    let info = plugin.device_info(0).unwrap();
    if !info
        .capabilities
        .contains(crossdock_sdk::abi::Capabilities::MANAGED)
    {
        println!("skipped: the first device has no managed memory");
        return;
    }
    let memory = allocate(&plugin, MemoryKind::MANAGED, SIZE as u64);
    is_used(&plugin, memory, MemoryKind::MANAGED, NOW);
    let stream = plugin.stream_create(0).unwrap();
    is_used(&plugin, memory, MemoryKind::MANAGED, stream);
    plugin.stream_destroy(stream).unwrap();
    assert_eq!(free(&plugin, memory, MemoryKind::MANAGED), Status::OK);
}

#[test]
fn unified_memory_of_others_is_known_and_used_until_it_is_freed() {
    let plugin = open_or_skip!();
    let (context, device_id) = vendor_names(&plugin);
    let Some(others) = Others::new(context, device_id) else {
        return;
    };
    for kind in KINDS {
        let memory = others.make(kind);
        let ask = |offset| {
            plugin
                .pointer_query(memory.advanced(offset).unwrap())
                .unwrap()
        };
        let found = ask(100);
        assert_eq!(
            (found.kind, found.base, found.size),
            (kind, memory, SIZE as u64)
        );
        assert!(found.flags.contains(PointerFlags::FOREIGN));
        let by_host = kind != MemoryKind::DEVICE;
        assert_eq!(found.flags.contains(PointerFlags::HOST_ACCESSIBLE), by_host);
        let reached = if by_host { memory.word + 100 } else { 0 };
        assert_eq!(
            (found.host_pointer, found.device_pointer),
            (reached, memory.word + 100)
        );
        assert_eq!(ask(SIZE as u64).kind, MemoryKind::UNOWNED);
        let as_handle = Address::handle(memory.word, 0);
        assert_eq!(
            plugin.pointer_query(as_handle).unwrap().kind,
            MemoryKind::UNOWNED
        );
        is_used(&plugin, memory, kind, NOW);
        let stream = plugin.stream_create(0).unwrap();
        is_used(&plugin, memory, kind, stream);
        plugin.stream_destroy(stream).unwrap();
        assert_eq!(free(&plugin, memory, kind), Status::NOT_OWNER);
        others.end(memory);
        assert_eq!(ask(0).kind, MemoryKind::UNOWNED);
    }
}

#[test]
fn unified_memory_of_another_context_is_known_while_a_queue_of_it_is_a_stream() {
    let plugin = open_or_skip!();
    let (_, device_id) = vendor_names(&plugin);
    let context =
        cl_context::create_context(&[device_id], std::ptr::null(), None, null_mut()).unwrap();
    // SAFETY: a live context with this device, and no properties.
    let queue = unsafe {
        cl_queue::create_command_queue_with_properties(context, device_id, std::ptr::null())
    };
    let queue = queue.unwrap();
    if let Some(others) = Others::new(context, device_id) {
        for kind in KINDS {
            let memory = others.make(kind);
            let kind_now = || plugin.pointer_query(memory).unwrap().kind;
            assert_eq!(kind_now(), MemoryKind::UNOWNED);
            // SAFETY: a live queue.
            let stream =
                unsafe { plugin.stream_wrap(0, queue.expose_provenance() as u64) }.unwrap();
            assert_eq!(kind_now(), kind);
            is_used(&plugin, memory, kind, NOW);
            is_used(&plugin, memory, kind, stream);
            plugin.stream_destroy(stream).unwrap();
            assert_eq!(kind_now(), MemoryKind::UNOWNED);
            // Pinned memory may be another plugin's, and is the host's here.
            if kind != MemoryKind::PINNED {
                let at = |offset| side(memory, offset, kind);
                assert_eq!(copy(&plugin, at(0), at(64), 8, NOW), Status::NOT_OWNER);
            }
            others.end(memory);
        }
    }
    // SAFETY: the references that the creations gave, each given back once.
    unsafe { cl_queue::release_command_queue(queue) }.unwrap();
    // SAFETY: as above.
    unsafe { cl_context::release_context(context) }.unwrap();
}
