//! Memory that host and device share, and copies that this plugin refuses.

use crossdock_sdk::{
    abi::{
        Address, AdoptFlags, Capabilities, MemoryKind, PointerFlags, Status, StreamHandle,
        StridedArgs,
    },
    plugin::{Adopt, Map, Plugin, Streams, Strided},
};

use crate::rig::{
    LATE, allocate, copy, counted, device, download, free, host, open_or_skip, status, upload,
};

#[test]
fn a_copy_that_leaves_its_allocation_or_overlaps_itself_is_refused() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 64);
    let bytes = [0_u8; 65];
    let outside = copy(
        &plugin,
        device(memory),
        host(bytes.as_ptr()),
        65,
        StreamHandle::NONE,
    );
    assert_eq!(outside, Status::INVALID);
    let shifted = device(memory.advanced(8).unwrap());
    let overlapping = copy(&plugin, shifted, device(memory), 16, StreamHandle::NONE);
    assert_eq!(overlapping, Status::INVALID);
}

#[test]
fn a_strided_copy_that_rectangles_cannot_make_is_unsupported() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 4096);
    let source = [0_u32; 64];
    // Elements below a byte, a destination that overlaps itself.
    for (bits, dst_stride) in [(4, 1_i64), (32, 0)] {
        let args = StridedArgs {
            dst: device(memory),
            src: host(&raw const source[32]),
            element_bits: bits,
            rank: 1,
            shape: [8].as_ptr(),
            dst_strides: [dst_stride].as_ptr(),
            src_strides: [1].as_ptr(),
        };
        // SAFETY: the arrays have one number each, and all elements lie within the sources.
        let refused = status(unsafe { plugin.copy_strided(args, StreamHandle::NONE) });
        assert_eq!(refused, Status::UNSUPPORTED, "{bits} bits, {dst_stride}");
    }
}

#[test]
fn device_memory_that_the_host_reaches_is_the_same_memory() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 4096);
    let answer = plugin.pointer_query(memory.advanced(5).unwrap()).unwrap();
    if !answer.flags.contains(PointerFlags::HOST_ACCESSIBLE) {
        println!("skipped: the device's memory is its own");
        return;
    }
    upload(&plugin, memory, &counted(4096));
    let seen = std::ptr::with_exposed_provenance::<u8>(answer.host_pointer as usize);
    // SAFETY: the answer says that the host may read there; the copy is done.
    assert_eq!(unsafe { seen.read() }, counted(4096)[5]);
    let back = plugin
        .pointer_query(Address::pointer(answer.host_pointer))
        .unwrap();
    assert_eq!(
        (back.base, back.allocation_id),
        (memory, answer.allocation_id)
    );
}

#[test]
fn adopted_host_memory_is_the_same_memory_and_comes_back() {
    let plugin = open_or_skip!();
    let mut memory = counted(10_000);
    let start = Address::pointer(memory.as_mut_ptr().expose_provenance() as u64 + 1);
    // SAFETY: the vector outlives the adoption.
    let adopted = unsafe { plugin.adopt(0, start, MemoryKind::HOST, 9_999, AdoptFlags::empty()) };
    if !plugin
        .device_info(0)
        .unwrap()
        .capabilities
        .contains(Capabilities::ADOPT_HOST)
    {
        assert_eq!(status(adopted), Status::UNSUPPORTED);
        return;
    }
    let adopted = adopted.unwrap();
    let answer = plugin.pointer_query(adopted).unwrap();
    assert!(answer.flags.contains(PointerFlags::FOREIGN));
    assert_eq!(answer.host_pointer, start.word);
    // The address itself stays its owner's.
    assert_eq!(
        plugin.pointer_query(start).unwrap().kind,
        MemoryKind::UNOWNED
    );
    assert_eq!(download(&plugin, adopted, 9_999), counted(10_000)[1..]);
    upload(&plugin, adopted.advanced(99).unwrap(), &[0xab; 100]);
    assert_eq!(
        free(&plugin, adopted, MemoryKind::DEVICE),
        Status::NOT_OWNER
    );
    plugin.release_adopted(0, adopted).unwrap();
    assert_eq!(memory[100..200], [0xab; 100]);
    assert_eq!(memory[200..], counted(10_000)[200..]);
    assert_eq!(
        status(plugin.release_adopted(0, adopted)),
        Status::NOT_OWNER
    );
}

#[test]
fn the_device_works_on_in_memory_that_the_host_has_mapped() {
    let plugin = open_or_skip!();
    let (one, two) = (
        allocate(&plugin, MemoryKind::DEVICE, 4096),
        allocate(&plugin, MemoryKind::DEVICE, 4096),
    );
    upload(&plugin, one, &counted(4096));
    let view = plugin.map(0, one, 4096).unwrap().cast::<u8>();
    let part = plugin.map(0, one.advanced(64).unwrap(), 64).unwrap();
    let other = plugin.map(0, two, 4096).unwrap();
    // SAFETY: the mapping has 4096 bytes for the host.
    unsafe { view.write(0x77) };
    let stream = plugin.stream_create(0).unwrap();
    let moved = copy(&plugin, device(two), device(one), 4096, stream);
    if moved == Status::CONFLICT {
        println!("skipped: commands on this platform cannot use mapped memory");
        return;
    }
    assert_eq!(moved, Status::OK);
    plugin.stream_synchronize(stream, LATE).unwrap();
    let wanted = [&[0x77], &counted(4096)[1..]].concat();
    assert_eq!(download(&plugin, two, 4096), wanted);
    upload(&plugin, one, &[0x11; 128]);
    // SAFETY: as above; the copy is done.
    assert_eq!(unsafe { view.wrapping_add(127).read() }, 0x11);
    for (address, pointer) in [
        (one.advanced(64).unwrap(), part),
        (one, view.cast()),
        (two, other),
    ] {
        plugin.unmap(0, address, pointer).unwrap();
        let again = status(plugin.unmap(0, address, pointer));
        assert_eq!(again, Status::NOT_OWNER);
    }
    assert_eq!(download(&plugin, one, 128), [0x11; 128]);
}
