//! Host views: made by several threads, of one object and of a part of it, and beside its work.

use std::{ffi::c_void, ptr::null_mut, sync::Barrier};

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{Address, AdoptFlags, MemoryKind, Status},
    plugin::{Adopt, HostEvents, Map, Streams},
};
use opencl3::memory as cl_memory;

use crate::rig::{
    LATE, allocate, copy, counted, device, download, host, open_or_skip, status, upload,
    vendor_names,
};

const BYTES: usize = 8192;
const THREADS: usize = 4;
const ROUNDS: usize = 1500;

/// Maps `size` bytes at each of the addresses at once, again and again; all begin with `counted`.
fn map_at_once(plugin: &OpenCl, addresses: [(Address, usize); THREADS]) {
    let barrier = Barrier::new(THREADS);
    let rounds = |address: Address, size: usize| {
        barrier.wait();
        for round in 0..ROUNDS {
            let view = plugin.map(0, address, size as u64).unwrap();
            // SAFETY: the mapping has `size` bytes for the host, and nobody writes there.
            let seen = unsafe { std::slice::from_raw_parts(view.cast::<u8>(), size) };
            assert!(seen == &counted(size)[..], "round {round}");
            plugin.unmap(0, address, view).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for (address, size) in addresses {
            scope.spawn(move || rounds(address, size));
        }
    });
}

/// A memory object of others with `counted` in it.
fn object_of_others(plugin: &OpenCl) -> (*mut c_void, Address) {
    let (context, _) = vendor_names(plugin);
    let flags = cl_memory::CL_MEM_READ_WRITE;
    // SAFETY: a live context, and no host memory.
    let raw = unsafe { cl_memory::create_buffer(context, flags, BYTES, null_mut()) }.unwrap();
    let adopted = adopt(plugin, raw, BYTES);
    upload(plugin, adopted, &counted(BYTES));
    (raw, adopted)
}

fn adopt(plugin: &OpenCl, raw: *mut c_void, size: usize) -> Address {
    let foreign = Address::handle(raw.expose_provenance() as u64, 0);
    let flags = AdoptFlags::empty();
    // SAFETY: a live memory object.
    unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, size as u64, flags) }.unwrap()
}

/// Gives back what `object_of_others` or a test made.
fn give_back(plugin: &OpenCl, raw: *mut c_void, adopted: Address) {
    plugin.release_adopted(0, adopted).unwrap();
    // SAFETY: the reference of the creation, given back once.
    unsafe { cl_memory::release_mem_object(raw) }.unwrap();
}

#[test]
fn threads_map_one_allocation_at_once() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, BYTES as u64);
    upload(&plugin, memory, &counted(BYTES));
    // Ranges that overlap, with one start.
    map_at_once(&plugin, [BYTES, BYTES, 4096, 64].map(|size| (memory, size)));
}

#[test]
fn threads_map_one_object_of_others_at_once() {
    let plugin = open_or_skip!();
    let (raw, adopted) = object_of_others(&plugin);
    map_at_once(
        &plugin,
        [BYTES, BYTES, 4096, 64].map(|size| (adopted, size)),
    );
    give_back(&plugin, raw, adopted);
}

#[test]
fn threads_map_an_object_of_others_and_a_part_of_it_at_once() {
    let plugin = open_or_skip!();
    let (raw, whole) = object_of_others(&plugin);
    let region = [0, BYTES / 2];
    // SAFETY: a live object, and the region that this kind of part is made from.
    let part = unsafe {
        cl_memory::create_sub_buffer(
            raw,
            cl_memory::CL_MEM_READ_WRITE,
            cl_memory::CL_BUFFER_CREATE_TYPE_REGION,
            region.as_ptr().cast(),
        )
    };
    let part = part.unwrap();
    let adopted = adopt(&plugin, part, BYTES / 2);
    let (whole_of_it, part_of_it) = ((whole, BYTES), (adopted, BYTES / 2));
    map_at_once(&plugin, [whole_of_it, part_of_it, whole_of_it, part_of_it]);
    give_back(&plugin, part, adopted);
    give_back(&plugin, raw, whole);
}

#[test]
fn memory_that_is_mapped_is_read_while_an_earlier_read_of_it_waits() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, BYTES as u64);
    upload(&plugin, memory, &counted(BYTES));
    let view = plugin.map(0, memory, BYTES as u64).unwrap();
    let (stream, event) = (
        plugin.stream_create(0).unwrap(),
        plugin.event_create_host(0).unwrap(),
    );
    plugin.stream_wait_event(stream, event).unwrap();
    let mut late = vec![0_u8; BYTES];
    let to = host(late.as_mut_ptr());
    let read = copy(&plugin, to, device(memory), BYTES, stream);
    if read == Status::OK {
        // It ends while the earlier one waits.
        assert_eq!(download(&plugin, memory, BYTES), counted(BYTES));
    } else {
        assert_eq!(read, Status::CONFLICT);
        println!("skipped: commands on this platform cannot use mapped memory");
    }
    plugin.event_complete(event, Status::OK).unwrap();
    plugin.stream_synchronize(stream, LATE).unwrap();
    if read == Status::OK {
        assert_eq!(late, counted(BYTES));
    }
    plugin.unmap(0, memory, view).unwrap();
    plugin.event_destroy(event).unwrap();
    plugin.stream_destroy(stream).unwrap();
}

#[test]
fn an_object_of_others_is_the_hosts_until_its_last_view_ends() {
    let plugin = open_or_skip!();
    let (raw, adopted) = object_of_others(&plugin);
    let size = BYTES as u64;
    let (first, second) = (plugin.map(0, adopted, size), plugin.map(0, adopted, 64));
    let (first, second) = (first.unwrap(), second.unwrap());
    let bytes = [0x5a_u8; BYTES];
    let write = || {
        let none = crossdock_sdk::abi::StreamHandle::NONE;
        copy(&plugin, device(adopted), host(bytes.as_ptr()), BYTES, none)
    };
    assert_eq!(write(), Status::CONFLICT);
    // SAFETY: the mapping has these bytes for the host.
    unsafe { second.cast::<u8>().write(0x77) };
    plugin.unmap(0, adopted, first).unwrap();
    assert_eq!(write(), Status::CONFLICT, "one view is left");
    // SAFETY: as above; the second mapping is still there.
    assert_eq!(unsafe { second.cast::<u8>().read() }, 0x77);
    plugin.unmap(0, adopted, second).unwrap();
    assert_eq!(download(&plugin, adopted, 1), [0x77]);
    let again = status(plugin.unmap(0, adopted, second));
    assert_eq!(again, Status::NOT_OWNER);
    assert_eq!(write(), Status::OK);
    give_back(&plugin, raw, adopted);
}
