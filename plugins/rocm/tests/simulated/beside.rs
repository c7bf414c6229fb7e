//! The plugin beside others who use the runtime: their device, their last error, their streams and their memory.

use std::ffi::{c_char, c_int};

use crossdock_sdk::abi::{
    Address, CopyArgs, DefaultStream, MemoryKind, PointerFlags, Status, StreamHandle,
};
use crossdock_sdk::plugin::{HostEvents as _, Plugin as _, Register as _, Streams as _, Wrap as _};
use libloading::Library;

use crate::hooks::{BYTES, LIMIT_NS, allocate, call, free, open, round_trip, runtime, side};
use crate::vendors::Simulator;
use crate::{POLICIES, over};

#[test]
fn the_threads_device_and_last_error_stay_the_callers() {
    let name = "beside::the_threads_device_and_last_error_stay_the_callers";
    if !over(name, &[POLICIES[0], POLICIES[2]]) {
        return;
    }
    let (hip, rocm) = (runtime(), open());
    assert_eq!(call!(hip.hipSetDevice(1 => c_int) -> c_int), 0);
    let memory = allocate(&rocm, MemoryKind::DEVICE, 0).unwrap();
    round_trip(&rocm, memory.word, 0, StreamHandle::NONE).unwrap();
    // Questions that the runtime answers by an error.
    let stream = rocm.stream_create(0).unwrap();
    let _pending = rocm.stream_query(stream);
    let nobodys = rocm.pointer_query(Address::pointer(0x10)).unwrap();
    assert_eq!(nobodys.kind, MemoryKind::UNOWNED);
    // SAFETY: a word that is no stream, which the plugin refuses before the runtime sees it.
    let refused = unsafe { rocm.stream_wrap(0, 1) }.unwrap_err();
    assert_eq!(refused.status(), Status::INVALID);
    assert_eq!(call!(hip.hipPeekAtLastError() -> c_int), 0);
    let mut device = -1;
    assert_eq!(
        call!(hip.hipGetDevice(&raw mut device => *mut c_int) -> c_int),
        0
    );
    assert_eq!(device, 1);
    rocm.stream_destroy(stream).unwrap();
    free(&rocm, memory, MemoryKind::DEVICE).unwrap();
}

#[test]
fn an_error_of_the_programs_own_is_not_forgotten() {
    let name = "beside::an_error_of_the_programs_own_is_not_forgotten";
    if !over(
        name,
        &[&["--rocm", "1"], &["--rocm", "1", "--set", "hip=6.4"]],
    ) {
        return;
    }
    let (hip, rocm) = (runtime(), open());
    let keeps = !std::env::var("CROSSDOCK_SIM").unwrap().contains("hip=6");
    let last = || call!(hip.hipGetLastError() -> c_int);
    let fail = || call!(hip.hipSetDevice(99 => c_int) -> c_int);
    let memory = allocate(&rocm, MemoryKind::DEVICE, 0).unwrap();
    let stream = rocm.stream_create(0).unwrap();
    let held = rocm.event_create_host(0).unwrap();
    let pending = || rocm.stream_query(stream).unwrap_err().status();
    rocm.stream_wait_event(stream, held).unwrap();
    last();
    // Work that is pending is no error: it takes nothing, and leaves nothing.
    assert_eq!(fail(), 101);
    assert_eq!(pending(), Status::NOT_READY);
    let nobodys = rocm.pointer_query(Address::pointer(0x10)).unwrap();
    assert_eq!(nobodys.kind, MemoryKind::UNOWNED);
    assert_eq!(last(), if keeps { 101 } else { 0 });
    assert_eq!(pending(), Status::NOT_READY);
    assert_eq!(last(), 0);
    // A call of ours that fails takes its place: there is an error still.
    assert_eq!(fail(), 101);
    let fault = c"hipStreamCreateWithFlags@1=2".as_ptr();
    assert_eq!(
        call!(hip.crossdock_sim_arm(fault => *const c_char) -> i64),
        0
    );
    rocm.stream_create(0).unwrap_err();
    assert_eq!(last(), if keeps { 2 } else { 0 });
    rocm.event_complete(held, Status::OK).unwrap();
    rocm.stream_synchronize(stream, LIMIT_NS).unwrap();
    rocm.event_destroy(held).unwrap();
    rocm.stream_destroy(stream).unwrap();
    free(&rocm, memory, MemoryKind::DEVICE).unwrap();
}

#[test]
fn streams_of_others_are_wrapped_and_no_number_is_a_handle() {
    let name = "beside::streams_of_others_are_wrapped_and_no_number_is_a_handle";
    if !over(name, &POLICIES) {
        return;
    }
    let (hip, rocm) = (runtime(), open());
    let mut theirs = 0_u64;
    assert_eq!(call!(hip.hipSetDevice(1 => c_int) -> c_int), 0);
    let made = call!(hip.hipStreamCreateWithFlags(&raw mut theirs => *mut u64, 1 => u32) -> c_int);
    assert_eq!(made, 0);
    // SAFETY: a live stream.
    let stream = unsafe { rocm.stream_wrap(1, theirs) }.unwrap();
    assert_eq!(rocm.stream_native(stream).unwrap(), theirs);
    let mut memory = 0_u64;
    let made = call!(hip.hipMalloc(&raw mut memory => *mut u64, BYTES => usize) -> c_int);
    assert_eq!(made, 0);
    round_trip(&rocm, memory, 1, stream).unwrap();
    // SAFETY: a live stream, of another device.
    let of_another = unsafe { rocm.stream_wrap(0, theirs) }.unwrap_err();
    assert_eq!(of_another.status(), Status::INVALID);
    // SAFETY: 0 is the default stream, and neither 1 nor 2 is looked at as a handle.
    let wrapped = [0, 1, 2].map(|word| unsafe { rocm.stream_wrap(1, word) });
    let statuses = wrapped.map(|wrapped| wrapped.map_err(|error| error.status()));
    let [Ok(default), Err(Status::INVALID), Err(Status::UNSUPPORTED)] = statuses else {
        panic!("{statuses:?}");
    };
    assert_eq!(rocm.stream_native(default).unwrap(), 0);
    round_trip(&rocm, memory, 1, default).unwrap();
    let legacy = rocm.stream_default(1, DefaultStream::LEGACY).unwrap();
    assert_eq!(rocm.stream_native(legacy).unwrap(), 0);
    for stream in [stream, default] {
        rocm.stream_destroy(stream).unwrap();
    }
    assert_eq!(call!(hip.hipStreamDestroy(theirs => u64) -> c_int), 0);
    assert_eq!(call!(hip.hipFree(memory => u64) -> c_int), 0);
}

#[test]
fn memory_of_others_is_known_as_what_it_is() {
    if !over(
        "beside::memory_of_others_is_known_as_what_it_is",
        &POLICIES[..1],
    ) {
        return;
    }
    let (hip, rocm) = (runtime(), open());
    assert_eq!(call!(hip.hipSetDevice(1 => c_int) -> c_int), 0);
    let (mut device, mut pinned, mut managed) = (0_u64, 0_u64, 0_u64);
    let made = [
        call!(hip.hipMalloc(&raw mut device => *mut u64, BYTES => usize) -> c_int),
        call!(hip.hipHostMalloc(&raw mut pinned => *mut u64, BYTES => usize, 0 => u32) -> c_int),
        call!(hip.hipMallocManaged(&raw mut managed => *mut u64, BYTES => usize, 1 => u32) -> c_int),
    ];
    assert_eq!(made, [0; 3]);
    let kinds = [
        (device, MemoryKind::DEVICE),
        (pinned, MemoryKind::PINNED),
        (managed, MemoryKind::MANAGED),
    ];
    for (address, kind) in kinds {
        let inside = rocm.pointer_query(Address::pointer(address + 100)).unwrap();
        assert_eq!((inside.kind, inside.device), (kind, 1));
        assert_eq!(inside.base, Address::pointer(address));
        assert_eq!(inside.size, BYTES as u64);
        assert!(inside.flags.contains(PointerFlags::FOREIGN));
        assert_ne!(inside.allocation_id, 0);
    }
    assert_eq!(call!(hip.hipFree(device => u64) -> c_int), 0);
    assert_eq!(call!(hip.hipHostFree(pinned => u64) -> c_int), 0);
    assert_eq!(call!(hip.hipFree(managed => u64) -> c_int), 0);
    let gone = rocm.pointer_query(Address::pointer(device)).unwrap();
    assert_eq!(gone.kind, MemoryKind::UNOWNED);
}

#[test]
fn host_memory_is_registered_by_two_vendors_at_once() {
    let options: &[&str] = &["--cuda", "1", "--rocm", "1"];
    let name = "beside::host_memory_is_registered_by_two_vendors_at_once";
    if !over(name, &[options]) {
        return;
    }
    let rocm = open();
    // SAFETY: the simulator's initialisers touch nothing of ours.
    let cuda = unsafe { Library::new("libcuda.so.1") }.unwrap();
    let mut context = 0_u64;
    assert_eq!(call!(cuda.cuInit(0 => u32) -> c_int), 0);
    let made =
        call!(cuda.cuCtxCreate_v2(&raw mut context => *mut u64, 0 => u32, 0 => c_int) -> c_int);
    assert_eq!(made, 0);
    let mut memory = vec![0_u8; BYTES];
    let (pointer, size) = (memory.as_mut_ptr(), BYTES as u64);
    let address = pointer.expose_provenance() as u64;
    let register =
        || call!(cuda.cuMemHostRegister_v2(address => u64, BYTES => usize, 0 => u32) -> c_int);
    assert_eq!(register(), 0);
    // SAFETY: the memory lives until it is unregistered.
    unsafe { rocm.register_host(0, pointer.cast(), size) }.unwrap();
    assert_eq!(
        rocm.pointer_query(Address::pointer(address)).unwrap().kind,
        MemoryKind::PINNED
    );
    assert_eq!(call!(cuda.cuMemHostUnregister(address => u64) -> c_int), 0);
    rocm.unregister_host(0, pointer.cast()).unwrap();
    // Device memory of the other vendor is nobody's here.
    let mut theirs = 0_u64;
    let made = call!(cuda.cuMemAlloc_v2(&raw mut theirs => *mut u64, BYTES => usize) -> c_int);
    assert_eq!(made, 0);
    let query = rocm.pointer_query(Address::pointer(theirs)).unwrap();
    assert_eq!(query.kind, MemoryKind::UNOWNED);
    let args = CopyArgs {
        dst: side(theirs, MemoryKind::DEVICE, 0),
        src: side(address, MemoryKind::HOST, 0),
        bytes: size,
    };
    // SAFETY: the plugin refuses it before it touches anything.
    let refused = unsafe { rocm.copy(args, StreamHandle::NONE) }.unwrap_err();
    assert_eq!(refused.status(), Status::NOT_OWNER);
    assert_eq!(call!(cuda.cuMemFree_v2(theirs => u64) -> c_int), 0);
}

#[test]
fn a_pool_is_made_that_lets_no_stream_wait_for_another_one() {
    let name = "beside::a_pool_is_made_that_lets_no_stream_wait_for_another_one";
    if !over(name, &POLICIES[..1]) {
        return;
    }
    let (rocm, simulator) = (open(), Simulator::find());
    let memory = allocate(&rocm, MemoryKind::DEVICE, 0).unwrap();
    // How much it keeps, and that it inserts no dependencies: the simulator does not say what pool memory is of.
    let calls = simulator.take_calls();
    assert_eq!(calls.get("hipMemPoolSetAttribute"), Some(&2));
    free(&rocm, memory, MemoryKind::DEVICE).unwrap();
}
