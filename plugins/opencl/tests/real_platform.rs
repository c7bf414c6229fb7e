//! The plugin's hooks on whatever OpenCL this machine has; skipped where it has none.
#![expect(
    unsafe_code,
    reason = "copies take raw addresses, and the vendor is called directly"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the functions beside the tests are tests too"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "words of the contract are addresses of this process"
)]

use std::{
    ffi::c_void,
    process::Command,
    ptr::null_mut,
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{
        Address, AllocateArgs, Capabilities, CopyArgs, DefaultStream, FillArgs, HostFunction,
        MemoryKind, PointerFlags, ProbeState, Side, Status, StreamHandle, StridedArgs,
    },
    plugin::{
        Adopt, Fill, Host, HostCalls, HostEvents, Map, Plugin, Streams, Strided, Timing, Wrap,
        read_fixed_text,
    },
};
use opencl3::{command_queue as cl_queue, context::context as cl_context, memory as cl_memory};

const NO_LIMIT: u64 = u64::MAX;
const SOON: u64 = 20_000_000;
const LATE: u64 = 20_000_000_000;

/// The plugin, or the reason why the test has nothing to run on.
fn opened() -> Option<OpenCl> {
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

macro_rules! open_or_skip {
    () => {
        match opened() {
            Some(plugin) => plugin,
            None => return,
        }
    };
}

fn allocate(plugin: &OpenCl, kind: MemoryKind, size: u64) -> Address {
    let args = AllocateArgs {
        size,
        alignment: 1,
        kind,
        device: 0,
    };
    plugin.allocate(args).unwrap()
}

fn device(address: Address) -> Side {
    Side {
        address,
        kind: MemoryKind::DEVICE,
        device: 0,
    }
}

fn host<T>(bytes: *const T) -> Side {
    let word = bytes.expose_provenance() as u64;
    Side {
        address: Address::pointer(word),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

fn copy(plugin: &OpenCl, dst: Side, src: Side, bytes: usize, stream: StreamHandle) -> Status {
    let args = CopyArgs {
        dst,
        src,
        bytes: bytes as u64,
    };
    // SAFETY: tests pass live memory of that length.
    status(unsafe { plugin.copy(args, stream) })
}

fn upload(plugin: &OpenCl, to: Address, bytes: &[u8]) {
    let done = copy(
        plugin,
        device(to),
        host(bytes.as_ptr()),
        bytes.len(),
        StreamHandle::NONE,
    );
    assert_eq!(done, Status::OK);
}

fn download(plugin: &OpenCl, from: Address, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let to = host(bytes.as_mut_ptr());
    assert_eq!(
        copy(plugin, to, device(from), length, StreamHandle::NONE),
        Status::OK
    );
    bytes
}

fn free(plugin: &OpenCl, address: Address, kind: MemoryKind) -> Status {
    // SAFETY: tests have no work in flight on what they free.
    status(unsafe { plugin.free(address, kind) })
}

fn status<T>(result: Result<T, crossdock_sdk::plugin::Error>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::OK)
}

fn counted(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// The plugin's own context, and its first device, as the vendor names them.
fn vendor_names(plugin: &OpenCl) -> (*mut c_void, *mut c_void) {
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

#[test]
fn every_device_says_what_it_is_and_keeps_its_identity() {
    let (first, second) = (open_or_skip!(), open_or_skip!());
    assert!(first.device_count() > 0);
    for index in 0..first.device_count() {
        let info = first.device_info(index).unwrap();
        assert_eq!(info.dl_type, 4);
        assert!(!read_fixed_text(&info.name).is_empty());
        assert!(!read_fixed_text(&info.driver_version).is_empty());
        assert!(info.total_memory > 0);
        assert_ne!(info.uuid, [0; 16]);
        assert_eq!(info.uuid, second.device_info(index).unwrap().uuid);
    }
    assert_eq!(
        status(first.device_info(first.device_count())),
        Status::INVALID
    );
}

#[test]
fn bytes_come_back_through_two_allocations_at_odd_offsets() {
    let plugin = open_or_skip!();
    let bytes = counted(100_003);
    let one = allocate(&plugin, MemoryKind::DEVICE, 200_000);
    let two = allocate(&plugin, MemoryKind::DEVICE, 200_000);
    upload(&plugin, one.advanced(3).unwrap(), &bytes);
    let (from, to) = (one.advanced(3).unwrap(), two.advanced(77).unwrap());
    let moved = copy(
        &plugin,
        device(to),
        device(from),
        bytes.len(),
        StreamHandle::NONE,
    );
    assert_eq!(moved, Status::OK);
    assert_eq!(download(&plugin, to, bytes.len()), bytes);
    assert_eq!(free(&plugin, one, MemoryKind::DEVICE), Status::OK);
    assert_eq!(free(&plugin, two, MemoryKind::DEVICE), Status::OK);
}

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
fn a_word_that_nobody_vouched_for_is_unowned_and_never_used() {
    let plugin = open_or_skip!();
    let block = [0_u64; 8];
    for word in [
        1,
        0xdead_beef,
        block.as_ptr().expose_provenance() as u64,
        u64::MAX,
    ] {
        for address in [Address::handle(word, 0), Address::pointer(word)] {
            let answer = plugin.pointer_query(address).unwrap();
            assert_eq!(answer.kind, MemoryKind::UNOWNED, "{word:#x}");
            let used = copy(
                &plugin,
                host(block.as_ptr()),
                device(address),
                8,
                StreamHandle::NONE,
            );
            assert_eq!(used, Status::NOT_OWNER, "{word:#x}");
            assert_eq!(
                free(&plugin, address, MemoryKind::DEVICE),
                Status::NOT_OWNER
            );
        }
    }
}

#[test]
fn a_pointer_query_knows_allocations_until_they_are_freed() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 1000);
    let answer = plugin.pointer_query(memory.advanced(999).unwrap()).unwrap();
    assert_eq!(answer.kind, MemoryKind::DEVICE);
    assert_eq!(answer.base, memory);
    assert_eq!(answer.size, 1000);
    assert_ne!(answer.allocation_id, 0);
    let behind = plugin
        .pointer_query(memory.advanced(1000).unwrap())
        .unwrap();
    assert_eq!(behind.kind, MemoryKind::UNOWNED);
    assert_eq!(free(&plugin, memory, MemoryKind::PINNED), Status::NOT_OWNER);
    assert_eq!(
        free(&plugin, memory.advanced(1).unwrap(), MemoryKind::DEVICE),
        Status::NOT_OWNER
    );
    assert_eq!(free(&plugin, memory, MemoryKind::DEVICE), Status::OK);
    assert_eq!(
        plugin.pointer_query(memory).unwrap().kind,
        MemoryKind::UNOWNED
    );
    assert_eq!(free(&plugin, memory, MemoryKind::DEVICE), Status::NOT_OWNER);
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
fn pinned_and_managed_memory_are_addresses_that_copies_take() {
    let plugin = open_or_skip!();
    let offered = plugin.device_info(0).unwrap().capabilities;
    let bytes = counted(5000);
    for (kind, capability) in [
        (MemoryKind::PINNED, Capabilities::PINNED),
        (MemoryKind::MANAGED, Capabilities::MANAGED),
    ] {
        let args = AllocateArgs {
            size: 5000,
            alignment: 256,
            kind,
            device: 0,
        };
        if !offered.contains(capability) {
            assert_eq!(status(plugin.allocate(args)), Status::UNSUPPORTED);
            continue;
        }
        let memory = plugin.allocate(args).unwrap();
        assert_eq!(memory.word % 256, 0);
        let answer = plugin.pointer_query(memory.advanced(10).unwrap()).unwrap();
        assert_eq!(
            (answer.kind, answer.base, answer.size),
            (kind, memory, 5000)
        );
        assert_eq!(answer.host_pointer, memory.word + 10);
        let start = std::ptr::with_exposed_provenance_mut::<u8>(memory.word as usize);
        // SAFETY: the memory is the host's to write, and has 5000 bytes.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), 5000) };
        let target = allocate(&plugin, MemoryKind::DEVICE, 5000);
        let from = Side {
            address: memory,
            kind,
            device: 0,
        };
        assert_eq!(
            copy(&plugin, device(target), from, 5000, StreamHandle::NONE),
            Status::OK
        );
        assert_eq!(download(&plugin, target, 5000), bytes);
        assert_eq!(free(&plugin, memory, kind), Status::OK);
    }
}

/// Element offsets of a strided tensor, in order.
fn offsets(shape: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut places = vec![0];
    for (extent, stride) in shape.iter().zip(strides) {
        places = places
            .iter()
            .flat_map(|place| (0..*extent).map(move |i| place + i * stride))
            .collect();
    }
    places
        .into_iter()
        .map(|place| usize::try_from(place).unwrap())
        .collect()
}

#[test]
fn strided_copies_move_the_right_elements_in_all_three_directions() {
    let plugin = open_or_skip!();
    let cases: [(&[i64], &[i64], &[i64]); 5] = [
        (&[7], &[1], &[2]),
        (&[4, 6], &[6, 1], &[10, 1]),
        (&[4, 6], &[12, 2], &[20, 3]),
        (&[2, 3, 4], &[60, 10, 1], &[12, 4, 1]),
        (&[3, 2, 3, 4], &[200, 60, 10, 1], &[150, 36, 12, 2]),
    ];
    for (shape, near, far) in cases {
        let source: Vec<u32> = (0..2000).collect();
        let one = allocate(&plugin, MemoryKind::DEVICE, 8000);
        let two = allocate(&plugin, MemoryKind::DEVICE, 8000);
        let mut back = vec![u32::MAX; 2000];
        // Each leg reads one layout and writes the other; the last comes back to the host.
        let legs = [
            (device(one), far, host(source.as_ptr()), near),
            (device(two), near, device(one), far),
            (host(back.as_mut_ptr()), far, device(two), near),
        ];
        for (dst, dst_strides, src, src_strides) in legs {
            let args = StridedArgs {
                dst,
                src,
                element_bits: 32,
                rank: u32::try_from(shape.len()).unwrap(),
                shape: shape.as_ptr(),
                dst_strides: dst_strides.as_ptr(),
                src_strides: src_strides.as_ptr(),
            };
            // SAFETY: the arrays have `rank` numbers, and all elements lie within 2000.
            let done = status(unsafe { plugin.copy_strided(args, StreamHandle::NONE) });
            assert_eq!(done, Status::OK, "{shape:?}");
        }
        let mut wanted = vec![u32::MAX; 2000];
        for (from, to) in offsets(shape, near).into_iter().zip(offsets(shape, far)) {
            wanted[to] = source[from];
        }
        assert_eq!(back, wanted, "{shape:?}");
    }
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
fn fills_repeat_their_pattern_and_nothing_else() {
    let plugin = open_or_skip!();
    for length in [1_usize, 2, 4, 8, 16] {
        let memory = allocate(&plugin, MemoryKind::DEVICE, 256);
        upload(&plugin, memory, &[0xee; 256]);
        let mut pattern = [0; 16];
        pattern[..length].copy_from_slice(&counted(length + 1)[1..]);
        let args = FillArgs {
            dst: device(memory.advanced(32).unwrap()),
            bytes: 128,
            pattern,
            pattern_bytes: u32::try_from(length).unwrap(),
            reserved: 0,
        };
        // SAFETY: the range lies inside the allocation.
        let filled = unsafe { plugin.fill(args, StreamHandle::NONE) };
        assert_eq!(status(filled), Status::OK);
        let mut wanted = vec![0xee; 256];
        for (i, byte) in wanted[32..160].iter_mut().enumerate() {
            *byte = pattern[i % length];
        }
        assert_eq!(
            download(&plugin, memory, 256),
            wanted,
            "pattern of {length}"
        );
    }
}

#[test]
fn adopted_host_memory_is_the_same_memory_and_comes_back() {
    let plugin = open_or_skip!();
    let mut memory = counted(10_000);
    let start = Address::pointer(memory.as_mut_ptr().expose_provenance() as u64 + 1);
    // SAFETY: the vector outlives the adoption.
    let adopted = unsafe { plugin.adopt(0, start, MemoryKind::HOST, 9_999) };
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
    let too_large = unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, 513) };
    assert_eq!(status(too_large), Status::INVALID);
    for _ in 0..2 {
        // SAFETY: a live memory object.
        let adopted = unsafe { plugin.adopt(0, foreign, MemoryKind::DEVICE, 512) };
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

#[test]
fn an_object_or_queue_of_another_context_is_unsupported() {
    let (plugin, other) = (open_or_skip!(), open_or_skip!());
    let memory = allocate(&other, MemoryKind::DEVICE, 64);
    // SAFETY: a live memory object, of another context.
    let adopted = unsafe { plugin.adopt(0, memory, MemoryKind::DEVICE, 64) };
    assert_eq!(status(adopted), Status::UNSUPPORTED);
    let stream = other.stream_create(0).unwrap();
    let native = other.stream_native(stream).unwrap();
    // SAFETY: a live queue, of another context.
    let wrapped = unsafe { plugin.stream_wrap(0, native) };
    assert_eq!(status(wrapped), Status::UNSUPPORTED);
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
fn a_host_event_holds_a_stream_until_it_is_completed() {
    let plugin = open_or_skip!();
    let stream = plugin.stream_create(0).unwrap();
    let gate = plugin.event_create_host(0).unwrap();
    let after = plugin.event_create(0).unwrap();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 1000);
    upload(&plugin, memory, &[0; 1000]);
    let bytes = counted(1000);
    plugin.stream_wait_event(stream, gate).unwrap();
    assert_eq!(
        copy(&plugin, device(memory), host(bytes.as_ptr()), 1000, stream),
        Status::OK
    );
    plugin.event_record(after, stream).unwrap();
    assert_eq!(status(plugin.event_query(gate)), Status::NOT_READY);
    assert_eq!(status(plugin.stream_query(stream)), Status::NOT_READY);
    assert_eq!(
        status(plugin.event_synchronize(after, SOON)),
        Status::TIMEOUT
    );
    assert_eq!(
        status(plugin.stream_synchronize(stream, SOON)),
        Status::TIMEOUT
    );
    assert_eq!(download(&plugin, memory, 1000), [0; 1000]);
    plugin.event_complete(gate, Status::OK).unwrap();
    plugin.event_synchronize(after, LATE).unwrap();
    plugin.stream_synchronize(stream, NO_LIMIT).unwrap();
    plugin.stream_query(stream).unwrap();
    assert_eq!(download(&plugin, memory, 1000), bytes);
    assert_eq!(
        status(plugin.event_complete(gate, Status::OK)),
        Status::INVALID
    );
    assert_eq!(status(plugin.event_record(gate, stream)), Status::INVALID);
}

#[test]
fn a_host_event_that_fails_or_is_abandoned_ends_what_waits_for_it() {
    let plugin = open_or_skip!();
    for abandoned in [false, true] {
        let stream = plugin.stream_create(0).unwrap();
        let gate = plugin.event_create_host(0).unwrap();
        let after = plugin.event_create(0).unwrap();
        let memory = allocate(&plugin, MemoryKind::DEVICE, 1000);
        upload(&plugin, memory, &[1; 1000]);
        let (sender, receiver) = channel::<u32>();
        let word = Box::into_raw(Box::new(sender));
        plugin.stream_wait_event(stream, gate).unwrap();
        let bytes = [2; 1000];
        assert_eq!(
            copy(&plugin, device(memory), host(bytes.as_ptr()), 1000, stream),
            Status::OK
        );
        // SAFETY: `tell` takes the box that `word` is.
        unsafe { plugin.stream_host_call(stream, HostFunction(Some(tell)), word.cast()) }.unwrap();
        plugin.event_record(after, stream).unwrap();
        if abandoned {
            plugin.event_destroy(gate).unwrap();
            assert_eq!(status(plugin.event_query(gate)), Status::STALE);
        } else {
            plugin.event_complete(gate, Status::DEVICE_LOST).unwrap();
            assert_eq!(status(plugin.event_query(gate)), Status::DEVICE_LOST);
        }
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
        let ended = plugin.event_synchronize(after, LATE).unwrap_err();
        let wanted = if abandoned {
            Status::VENDOR
        } else {
            Status::DEVICE_LOST
        };
        assert_eq!(ended.status(), wanted, "{ended}");
        plugin.stream_destroy(stream).unwrap();
    }
}

#[test]
fn a_thread_that_already_waits_sees_a_failure_before_its_limit() {
    let plugin = open_or_skip!();
    let stream = plugin.stream_create(0).unwrap();
    let gate = plugin.event_create_host(0).unwrap();
    plugin.stream_wait_event(stream, gate).unwrap();
    let after = plugin.event_create(0).unwrap();
    plugin.event_record(after, stream).unwrap();
    let (begun, begins) = channel();
    let (ended, ends) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begun.send(()).unwrap();
            plugin.event_synchronize(after, LATE)
        });
        begins.recv().unwrap();
        // The waiting thread most likely sleeps by now; both orders are right.
        let timed_out = plugin.stream_synchronize(stream, SOON);
        plugin.event_complete(gate, Status::VENDOR).unwrap();
        (timed_out, waits.join().unwrap())
    });
    assert_eq!(status(ended), Status::TIMEOUT);
    assert_eq!(status(ends), Status::VENDOR);
}

#[test]
fn an_event_chains_two_streams_and_carries_a_time() {
    let plugin = open_or_skip!();
    let (one, two) = (
        plugin.stream_create(0).unwrap(),
        plugin.stream_create(0).unwrap(),
    );
    let (start, end) = (
        plugin.event_create(0).unwrap(),
        plugin.event_create(0).unwrap(),
    );
    plugin.event_query(start).unwrap();
    plugin.event_synchronize(start, NO_LIMIT).unwrap();
    assert_eq!(status(plugin.event_elapsed(start, end)), Status::INVALID);
    let bytes = counted(8 << 20);
    let memory = allocate(&plugin, MemoryKind::DEVICE, 8 << 20);
    let mut back = vec![0_u8; 8 << 20];
    plugin.event_record(start, one).unwrap();
    assert_eq!(
        copy(&plugin, device(memory), host(bytes.as_ptr()), 8 << 20, one),
        Status::OK
    );
    plugin.event_record(end, one).unwrap();
    plugin.stream_wait_event(two, end).unwrap();
    assert_eq!(
        copy(
            &plugin,
            host(back.as_mut_ptr()),
            device(memory),
            8 << 20,
            two
        ),
        Status::OK
    );
    plugin.stream_synchronize(two, LATE).unwrap();
    assert!(back == bytes);
    assert!(plugin.event_elapsed(start, end).unwrap() > 0);
    plugin.stream_destroy(one).unwrap();
    assert_eq!(status(plugin.stream_query(one)), Status::STALE);
    assert_eq!(status(plugin.stream_destroy(one)), Status::STALE);
}

#[test]
fn the_default_stream_is_one_and_is_never_destroyed() {
    let plugin = open_or_skip!();
    let stream = plugin.stream_default(0, DefaultStream::LEGACY).unwrap();
    assert_eq!(
        plugin.stream_default(0, DefaultStream::LEGACY).unwrap(),
        stream
    );
    assert_eq!(status(plugin.stream_destroy(stream)), Status::INVALID);
    let per_thread = plugin.stream_default(0, DefaultStream::PER_THREAD);
    assert_eq!(status(per_thread), Status::UNSUPPORTED);
}

unsafe extern "C" fn tell(word: *mut c_void) {
    // SAFETY: `word` is the sender that the test boxed, given once.
    let sender = unsafe { Box::from_raw(word.cast::<Sender<u32>>()) };
    sender.send(7).unwrap();
}

#[test]
fn a_host_function_runs_once_when_the_stream_reaches_it() {
    let plugin = open_or_skip!();
    let stream = plugin.stream_create(0).unwrap();
    let gate = plugin.event_create_host(0).unwrap();
    plugin.stream_wait_event(stream, gate).unwrap();
    let (sender, receiver) = channel::<u32>();
    let word = Box::into_raw(Box::new(sender));
    // SAFETY: `tell` takes the box that `word` is.
    unsafe { plugin.stream_host_call(stream, HostFunction(Some(tell)), word.cast()) }.unwrap();
    assert!(receiver.try_recv().is_err());
    plugin.event_complete(gate, Status::OK).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
    assert!(receiver.recv_timeout(Duration::from_secs(20)).is_err());
}

#[test]
fn a_mapping_shows_the_memory_and_takes_what_the_host_writes() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 1000);
    upload(&plugin, memory, &counted(1000));
    let middle = memory.advanced(100).unwrap();
    let view = plugin.map(0, middle, 50).unwrap().cast::<u8>();
    // SAFETY: the mapping has 50 bytes for the host.
    assert_eq!(unsafe { view.read() }, counted(1000)[100]);
    // SAFETY: as above.
    unsafe { view.write(0x77) };
    plugin.unmap(0, middle, view.cast()).unwrap();
    assert_eq!(download(&plugin, middle, 1), [0x77]);
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
        println!("skipped: a mapping of this device's memory may move");
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

#[test]
fn a_retired_plugin_takes_no_work_and_still_frees() {
    let plugin = open_or_skip!();
    let memory = allocate(&plugin, MemoryKind::DEVICE, 64);
    plugin.stream_create(0).unwrap();
    plugin.retire(LATE).unwrap();
    let args = AllocateArgs {
        size: 64,
        alignment: 1,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    assert_eq!(status(plugin.allocate(args)), Status::RETIRED);
    assert_eq!(status(plugin.stream_create(0)), Status::RETIRED);
    assert_eq!(free(&plugin, memory, MemoryKind::DEVICE), Status::OK);
}

#[test]
fn after_a_fork_or_at_exit_every_call_says_so_and_nothing_is_called() {
    type End = fn(&OpenCl);
    let ends: [(End, Status); 2] = [
        (OpenCl::at_fork_child, Status::FORKED),
        (OpenCl::at_exit, Status::EXITING),
    ];
    for (end, wanted) in ends {
        let plugin = open_or_skip!();
        let memory = allocate(&plugin, MemoryKind::DEVICE, 64);
        let stream = plugin.stream_create(0).unwrap();
        let event = plugin.event_create_host(0).unwrap();
        end(&plugin);
        let bytes = [0_u8; 64];
        let copied = copy(
            &plugin,
            device(memory),
            host(bytes.as_ptr()),
            64,
            StreamHandle::NONE,
        );
        assert_eq!(copied, wanted);
        assert_eq!(status(plugin.stream_synchronize(stream, NO_LIMIT)), wanted);
        assert_eq!(status(plugin.event_complete(event, Status::OK)), wanted);
        assert_eq!(free(&plugin, memory, MemoryKind::DEVICE), wanted);
        assert_eq!(
            plugin.pointer_query(memory).unwrap().kind,
            MemoryKind::DEVICE
        );
        drop(plugin);
    }
}

#[test]
fn probe_tells_its_parent() {
    if std::env::var_os("CROSSDOCK_TEST_PROBE").is_some() {
        let found = OpenCl::probe().unwrap();
        println!(
            "state={} detail={}",
            found.state.0,
            read_fixed_text(&found.detail)
        );
    }
}

#[test]
fn a_machine_without_drivers_or_with_a_dangling_one_is_absent_with_the_places() {
    if opened().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("crossdock-icd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for dangling in [false, true] {
        if dangling {
            std::fs::write(folder.join("gone.icd"), "/nowhere/libgone.so\n").unwrap();
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "probe_tells_its_parent", "--nocapture"])
            .env("CROSSDOCK_TEST_PROBE", "1")
            .env("OCL_ICD_VENDORS", &folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains(&format!("state={} ", ProbeState::ABSENT.0)),
            "{text}"
        );
        assert!(text.contains(&folder.display().to_string()), "{text}");
        assert_eq!(text.contains("/nowhere/libgone.so"), dangling, "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
