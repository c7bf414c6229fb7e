//! Objects and queues that others made, in the plugin's context and in one of their own.

use std::{ffi::c_void, ptr::null_mut};

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{
        Address, AdoptFlags, AllocateArgs, Capabilities, MemoryKind, Side, Status, StreamHandle,
    },
    plugin::{Adopt, Plugin, Streams, Wrap},
};
use opencl3::{command_queue as cl_queue, context::context as cl_context, memory as cl_memory};

use crate::rig::{
    LATE, allocate, copy, counted, device, download, host, open_or_skip, status, upload,
    vendor_names,
};

#[test]
fn an_adopted_object_of_others_outlives_their_release() {
    let plugin = open_or_skip!();
    let (context, _) = vendor_names(&plugin);
    // SAFETY: a live context, and no host memory.
    let raw =
        unsafe { cl_memory::create_buffer(context, cl_memory::CL_MEM_READ_WRITE, 512, null_mut()) };
    let raw = raw.unwrap();
    let foreign = Address::handle(raw.expose_provenance() as u64, 0);
    assert_eq!(
        plugin.pointer_query(foreign).unwrap().kind,
        MemoryKind::UNOWNED
    );
    // SAFETY: a live memory object.
    let too_large =
        unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, 513, AdoptFlags::empty()) };
    assert_eq!(status(too_large), Status::INVALID);
    for _ in 0..2 {
        // SAFETY: a live memory object.
        let adopted =
            unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, 512, AdoptFlags::empty()) };
        assert_eq!(adopted.unwrap(), foreign);
    }
    // SAFETY: the reference that `create_buffer` gave.
    unsafe { cl_memory::release_mem_object(raw) }.unwrap();
    upload(&plugin, foreign, &counted(512));
    plugin.release_adopted(0, foreign).unwrap();
    assert_eq!(download(&plugin, foreign, 512), counted(512));
    plugin.release_adopted(0, foreign).unwrap();
    assert_eq!(
        plugin.pointer_query(foreign).unwrap().kind,
        MemoryKind::UNOWNED
    );
}

/// Copies inside host memory over which others made an object, adopted as `object` from byte `origin` on.
fn copies_inside(plugin: &OpenCl, memory: &mut [u8], object: Address, origin: u64) {
    let first = memory.as_mut_ptr();
    let host_at = |at: u64| host(first.wrapping_add(usize::try_from(at).unwrap()));
    let device_at = |at: u64| device(object.advanced(at - origin).unwrap());
    let step = |dst, src| copy(plugin, dst, src, 64, StreamHandle::NONE);
    for (at_host, at_device) in [
        (0, 2048),
        (0, 1100),
        (1024, 2048),
        (2048, 1024),
        (100, 1500),
    ] {
        let (host, device) = (host_at(at_host), device_at(at_device));
        for (dst, src, to, from) in [
            (host, device, at_host, at_device),
            (device, host, at_device, at_host),
        ] {
            // SAFETY: the test's own bytes, as many as it counts, and no command is in flight.
            unsafe { first.copy_from_nonoverlapping(counted(4096).as_ptr(), 4096) };
            assert_eq!(step(dst, src), Status::OK, "{from} to {to}");
            let [to, from] = [to, from].map(|at| usize::try_from(at).unwrap());
            let mut wanted = counted(4096);
            wanted.copy_within(from..from + 64, to);
            // SAFETY: as above.
            let found = unsafe { std::slice::from_raw_parts(first, 4096) };
            assert!(found == wanted, "{from} to {to}");
        }
    }
    let twice = step(host_at(origin + 32), device_at(origin));
    assert_eq!(twice, Status::INVALID, "the ends overlap");
}

#[test]
fn a_copy_inside_host_memory_under_an_object_of_others_is_made() {
    let plugin = open_or_skip!();
    let capabilities = plugin.device_info(0).unwrap().capabilities;
    if !capabilities.contains(Capabilities::ADOPT_HOST) {
        println!("skipped: the device does not work in host memory itself");
        return;
    }
    let (context, _) = vendor_names(&plugin);
    let mut memory = counted(4096);
    let flags = cl_memory::CL_MEM_READ_WRITE | cl_memory::CL_MEM_USE_HOST_PTR;
    // SAFETY: a live context, and memory that outlives the object.
    let whole =
        unsafe { cl_memory::create_buffer(context, flags, 4096, memory.as_mut_ptr().cast()) };
    let whole = whole.unwrap();
    let (kind, region) = (cl_memory::CL_BUFFER_CREATE_TYPE_REGION, [1024_usize, 2048]);
    // SAFETY: a live object, and the region that this kind of part is made from.
    let part = unsafe { cl_memory::create_sub_buffer(whole, 0, kind, region.as_ptr().cast()) };
    let part = part.unwrap();
    for (raw, origin, size) in [(whole, 0, 4096), (part, 1024, 2048)] {
        let foreign = Address::handle(raw.expose_provenance() as u64, 0);
        let flags = AdoptFlags::empty();
        // SAFETY: a live memory object.
        let adopted = unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, size, flags) }.unwrap();
        copies_inside(&plugin, &mut memory, adopted, origin);
        plugin.release_adopted(0, adopted).unwrap();
    }
    for raw in [part, whole] {
        // SAFETY: the references that the creations gave, each given back once.
        unsafe { cl_memory::release_mem_object(raw) }.unwrap();
    }
}

#[test]
fn queues_of_others_keep_order_even_when_they_are_out_of_order() {
    let plugin = open_or_skip!();
    let (context, device_id) = vendor_names(&plugin);
    for properties in [0, cl_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let list = [u64::from(cl_queue::CL_QUEUE_PROPERTIES), properties, 0];
        // SAFETY: a live context with this device, and a list that ends in 0.
        let raw = unsafe {
            cl_queue::create_command_queue_with_properties(context, device_id, list.as_ptr())
        };
        let raw = raw.unwrap();
        // SAFETY: a live queue.
        let stream = unsafe { plugin.stream_wrap(0, raw.expose_provenance() as u64) }.unwrap();
        // SAFETY: the reference that the creation gave; the stream has its own.
        unsafe { cl_queue::release_command_queue(raw) }.unwrap();
        let bytes = counted(1 << 20);
        let one = allocate(&plugin, MemoryKind::DEVICE, 1 << 20);
        let two = allocate(&plugin, MemoryKind::DEVICE, 1 << 20);
        let mut back = vec![0_u8; 1 << 20];
        for (dst, src) in [
            (device(one), host(bytes.as_ptr())),
            (device(two), device(one)),
            (host(back.as_mut_ptr()), device(two)),
        ] {
            assert_eq!(copy(&plugin, dst, src, 1 << 20, stream), Status::OK);
        }
        plugin.stream_synchronize(stream, LATE).unwrap();
        assert!(back == bytes, "properties {properties}");
        plugin.stream_destroy(stream).unwrap();
    }
}

#[test]
fn an_object_and_a_queue_of_a_context_of_their_own_are_used_there() {
    let plugin = open_or_skip!();
    let (_, device_id) = vendor_names(&plugin);
    let context =
        cl_context::create_context(&[device_id], std::ptr::null(), None, null_mut()).unwrap();
    // SAFETY: a live context, and no host memory.
    let raw = unsafe {
        cl_memory::create_buffer(context, cl_memory::CL_MEM_READ_WRITE, 4096, null_mut())
    };
    let (raw, queue) = (raw.unwrap(), queue_in(context, device_id));
    let foreign = Address::handle(raw.expose_provenance() as u64, 0);
    // SAFETY: a live memory object.
    let adopted =
        unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, 4096, AdoptFlags::empty()) }.unwrap();
    // SAFETY: a live queue.
    let stream = unsafe { plugin.stream_wrap(0, queue.expose_provenance() as u64) }.unwrap();
    assert_eq!(plugin.pointer_query(adopted).unwrap().device, 0);
    upload(&plugin, adopted, &counted(4096));
    let mut back = vec![0_u8; 4096];
    let moved = copy(
        &plugin,
        host(back.as_mut_ptr()),
        device(adopted),
        4096,
        stream,
    );
    assert_eq!(moved, Status::OK);
    plugin.stream_synchronize(stream, LATE).unwrap();
    assert_eq!(back, counted(4096));
    // Memory of the plugin's own context is reached where the host reaches it.
    let own = allocate(&plugin, MemoryKind::DEVICE, 4096);
    let moved = copy(
        &plugin,
        device(own),
        device(adopted),
        4096,
        StreamHandle::NONE,
    );
    if moved != Status::UNSUPPORTED {
        assert_eq!(moved, Status::OK);
        assert_eq!(download(&plugin, own, 4096), counted(4096));
    }
    plugin.stream_destroy(stream).unwrap();
    plugin.release_adopted(0, adopted).unwrap();
    // SAFETY: the references that the creations gave, each given back once.
    unsafe { cl_memory::release_mem_object(raw) }.unwrap();
    // SAFETY: as above.
    unsafe { cl_queue::release_command_queue(queue) }.unwrap();
    // SAFETY: as above.
    unsafe { cl_context::release_context(context) }.unwrap();
}

#[test]
fn objects_of_one_context_share_one_queue_there() {
    let plugin = open_or_skip!();
    let (_, device_id) = vendor_names(&plugin);
    let context =
        cl_context::create_context(&[device_id], std::ptr::null(), None, null_mut()).unwrap();
    let references = || {
        let fact = cl_context::CL_CONTEXT_REFERENCE_COUNT;
        u32::from(cl_context::get_context_info(context, fact).unwrap())
    };
    let objects = [(); 4].map(|()| {
        // SAFETY: a live context, and no host memory.
        let raw = unsafe {
            cl_memory::create_buffer(context, cl_memory::CL_MEM_READ_WRITE, 64, null_mut())
        };
        raw.unwrap()
    });
    let mut seen = Vec::new();
    let adopted = objects.map(|raw| {
        let address = Address::handle(raw.expose_provenance() as u64, 0);
        let flags = AdoptFlags::empty();
        // SAFETY: a live memory object.
        let adopted = unsafe { plugin.adopt(0, address, MemoryKind::DEVICE, 64, flags) }.unwrap();
        seen.push(references());
        adopted
    });
    assert_eq!(seen, [seen[0]; 4], "each object needs a queue of its own");
    for (adopted, raw) in adopted.into_iter().zip(objects) {
        plugin.release_adopted(0, adopted).unwrap();
        // SAFETY: the reference that the creation gave.
        unsafe { cl_memory::release_mem_object(raw) }.unwrap();
    }
    // SAFETY: the reference that the creation gave.
    unsafe { cl_context::release_context(context) }.unwrap();
}

#[test]
fn a_context_without_the_device_is_unsupported() {
    let plugin = open_or_skip!();
    if plugin.device_count() < 2 {
        println!("skipped: there is one device only");
        return;
    }
    let (_, device_id) = vendor_names(&plugin);
    let context =
        cl_context::create_context(&[device_id], std::ptr::null(), None, null_mut()).unwrap();
    let queue = queue_in(context, device_id);
    // SAFETY: a live queue, of a context with device 0 only.
    let wrapped = unsafe { plugin.stream_wrap(1, queue.expose_provenance() as u64) };
    assert_ne!(status(wrapped), Status::OK);
    // SAFETY: the references that the creations gave, each given back once.
    unsafe { cl_queue::release_command_queue(queue) }.unwrap();
    // SAFETY: as above.
    unsafe { cl_context::release_context(context) }.unwrap();
}

#[test]
fn memory_moves_between_two_platforms_in_one_copy() {
    let plugin = open_or_skip!();
    if plugin.device_count() < 2 {
        println!("skipped: there is one device only");
        return;
    }
    let one = allocate(&plugin, MemoryKind::DEVICE, 4096);
    upload(&plugin, one, &counted(4096));
    let other = allocate_on(&plugin, 1, 4096);
    let to = Side {
        device: 1,
        ..device(other)
    };
    let moved = copy(&plugin, to, device(one), 4096, StreamHandle::NONE);
    if moved == Status::UNSUPPORTED {
        println!("skipped: neither platform works in host memory");
        return;
    }
    assert_eq!(moved, Status::OK);
    let mut back = vec![0_u8; 4096];
    let read = copy(
        &plugin,
        host(back.as_mut_ptr()),
        to,
        4096,
        StreamHandle::NONE,
    );
    assert_eq!(read, Status::OK);
    assert_eq!(back, counted(4096));
}

fn allocate_on(plugin: &OpenCl, device: u32, size: u64) -> Address {
    let args = AllocateArgs {
        size,
        alignment: 1,
        kind: MemoryKind::DEVICE,
        device,
    };
    plugin.allocate(args).unwrap()
}

fn queue_in(context: *mut c_void, device: *mut c_void) -> *mut c_void {
    // SAFETY: a live context with this device, and no properties.
    let queue = unsafe {
        cl_queue::create_command_queue_with_properties(context, device, std::ptr::null())
    };
    queue.unwrap()
}
