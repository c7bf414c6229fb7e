//! What only this plugin promises beyond the conformance suite.
#![expect(unsafe_code, reason = "hooks that touch memory are unsafe to call")]
#![expect(clippy::unwrap_used, reason = "a test may fail that way")]

use std::ffi::c_void;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crossdock_plugin_cpu::{Cpu, table};
use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, EventHandle, FillArgs, HostFunction, MemoryKind,
    PointerFlags, Side, Status, StreamHandle, StridedArgs,
};
use crossdock_sdk::plugin::{
    Adopt, AsyncMemory, Error, Fill, Host, HostCalls, HostEvents, Plugin, Register, Streams,
    Strided,
};

fn open() -> Cpu {
    // SAFETY: a null pointer is a host without services.
    let host = unsafe { Host::from_raw(std::ptr::null()) };
    Cpu::open(host).unwrap()
}

fn allocate(cpu: &Cpu, size: u64) -> Address {
    let kind = MemoryKind::DEVICE;
    cpu.allocate(AllocateArgs {
        size,
        alignment: 1,
        kind,
        device: 0,
    })
    .unwrap()
}

fn device(address: Address) -> Side {
    Side {
        address,
        kind: MemoryKind::DEVICE,
        device: 0,
    }
}

fn host(pointer: *const u8) -> Side {
    let word = u64::try_from(pointer.expose_provenance()).unwrap();
    Side {
        address: Address::pointer(word),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

fn read(cpu: &Cpu, address: Address, bytes: usize) -> Vec<u8> {
    let mut back = vec![0; bytes];
    let dst = host(back.as_mut_ptr());
    let args = CopyArgs {
        dst,
        src: device(address),
        bytes: u64::try_from(bytes).unwrap(),
    };
    // SAFETY: the vector holds the bytes, and the plugin checks its own side.
    unsafe { cpu.copy(args, StreamHandle::NONE) }.unwrap();
    back
}

fn fill(cpu: &Cpu, address: Address, bytes: u64, byte: u8, stream: StreamHandle) {
    let dst = device(address);
    let args = FillArgs {
        dst,
        bytes,
        pattern: [byte; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: the tests keep their allocations until the work is done.
    unsafe { cpu.fill(args, stream) }.unwrap();
}

fn free(cpu: &Cpu, address: Address) -> Result<(), Status> {
    // SAFETY: nobody uses the memory any more.
    unsafe { cpu.free(address, MemoryKind::DEVICE) }.map_err(|error: Error| error.status())
}

/// Tells the test that gave its sender up as `word`.
unsafe extern "C" fn tell(word: *mut c_void) {
    // SAFETY: the test passed a sender that it gave up.
    let sender = unsafe { Box::from_raw(word.cast::<Sender<u8>>()) };
    assert_eq!(sender.send(7), Ok(()));
}

/// A wait that takes so long has failed.
const LIMIT_NS: u64 = 5_000_000_000;

#[test]
fn the_table_has_the_groups_that_the_plugin_names() {
    // SAFETY: the table lives as long as the process.
    let table = unsafe { table().as_ref() };
    assert!(!table.streams.is_null() && !table.strided.is_null() && !table.host_events.is_null());
    assert!(table.map.is_null());
}

#[test]
fn work_on_a_stream_waits_for_the_host_and_then_runs_in_order() {
    let cpu = open();
    let (memory, stream) = (allocate(&cpu, 4096), cpu.stream_create(0).unwrap());
    fill(&cpu, memory, 4096, 1, StreamHandle::NONE);
    let event = cpu.event_create_host(0).unwrap();
    cpu.stream_wait_event(stream, event).unwrap();
    fill(&cpu, memory, 4096, 2, stream);
    assert_eq!(
        cpu.stream_query(stream).map_err(|e| e.status()),
        Err(Status::NOT_READY)
    );
    assert_eq!(read(&cpu, memory, 4096), [1; 4096]);
    cpu.event_complete(event, Status::OK).unwrap();
    cpu.stream_synchronize(stream, u64::MAX).unwrap();
    assert_eq!(read(&cpu, memory, 4096), [2; 4096]);
    let again = cpu.event_complete(event, Status::OK);
    assert_eq!(again.map_err(|e| e.status()), Err(Status::INVALID));
    cpu.event_destroy(event).unwrap();
    cpu.stream_destroy(stream).unwrap();
    assert_eq!(
        cpu.stream_destroy(stream).map_err(|e| e.status()),
        Err(Status::STALE)
    );
    assert_eq!(free(&cpu, memory), Ok(()));
    assert_eq!(free(&cpu, memory), Err(Status::NOT_OWNER));
}

#[test]
fn a_failure_that_the_host_gives_an_event_reaches_the_waiting_stream() {
    let cpu = open();
    let (stream, event) = (
        cpu.stream_create(0).unwrap(),
        cpu.event_create_host(0).unwrap(),
    );
    cpu.stream_wait_event(stream, event).unwrap();
    cpu.event_complete(event, Status::DEVICE_LOST).unwrap();
    let synchronized = cpu.stream_synchronize(stream, u64::MAX);
    assert_eq!(
        synchronized.map_err(|e| e.status()),
        Err(Status::DEVICE_LOST)
    );
}

#[test]
fn a_pending_host_event_that_is_destroyed_fails_those_who_wait() {
    let cpu = open();
    let (memory, stream) = (allocate(&cpu, 64), cpu.stream_create(0).unwrap());
    let (event, after) = (
        cpu.event_create_host(0).unwrap(),
        cpu.event_create(0).unwrap(),
    );
    cpu.stream_wait_event(stream, event).unwrap();
    fill(&cpu, memory, 64, 3, stream);
    cpu.event_record(after, stream).unwrap();
    cpu.event_destroy(event).unwrap();
    for _ in 0..2 {
        let waited = cpu.event_synchronize(after, LIMIT_NS);
        assert_eq!(waited.map_err(|e| e.status()), Err(Status::VENDOR));
    }
    let waited = cpu.stream_synchronize(stream, LIMIT_NS);
    assert_eq!(waited.map_err(|e| e.status()), Err(Status::VENDOR));
    assert_eq!(read(&cpu, memory, 64), [3; 64]);
    cpu.stream_synchronize(stream, LIMIT_NS).unwrap();
}

#[test]
fn a_thread_that_waits_for_a_host_event_sees_that_it_was_destroyed() {
    let cpu = open();
    let event = cpu.event_create_host(0).unwrap();
    let (begun, begins) = channel();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begun.send(()).unwrap();
            cpu.event_synchronize(event, LIMIT_NS)
        });
        begins.recv().unwrap();
        cpu.event_destroy(event).unwrap();
        // A wait that comes after the end finds no event; one that came before it hears of the failure.
        let status = waits.join().unwrap().unwrap_err().status();
        assert!(
            [Status::VENDOR, Status::STALE].contains(&status),
            "{status}"
        );
    });
}

#[test]
fn a_plugin_that_is_closed_fails_the_host_events_that_are_pending() {
    let cpu = open();
    let (stream, event) = (
        cpu.stream_create(0).unwrap(),
        cpu.event_create_host(0).unwrap(),
    );
    cpu.stream_wait_event(stream, event).unwrap();
    let (sender, receiver) = channel::<u8>();
    let word = Box::into_raw(Box::new(sender)).cast::<c_void>();
    // SAFETY: `tell` may be called once with this word on any thread.
    unsafe { cpu.stream_host_call(stream, HostFunction(Some(tell)), word) }.unwrap();
    drop(cpu);
    assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
}

#[test]
fn those_who_wait_hear_only_of_statuses_that_say_that_work_failed() {
    let cpu = open();
    for (&(given, _), number) in Status::ALL.iter().zip(0..) {
        let (stream, event) = (
            cpu.stream_create(0).unwrap(),
            cpu.event_create_host(0).unwrap(),
        );
        cpu.stream_wait_event(stream, event).unwrap();
        cpu.event_complete(event, given).unwrap();
        let told = match given {
            Status::OK => Ok(()),
            Status::VENDOR | Status::DEVICE_LOST | Status::OOM_DEVICE => Err(given),
            _ => Err(Status::VENDOR),
        };
        let at_event = cpu.event_query(event).map_err(|e| e.status());
        assert_eq!(at_event, told, "status {number}");
        let at_stream = cpu.stream_synchronize(stream, LIMIT_NS);
        assert_eq!(at_stream.map_err(|e| e.status()), told, "status {number}");
    }
}

#[test]
fn a_packed_strided_copy_reaches_single_elements() {
    let cpu = open();
    let memory = allocate(&cpu, 4);
    let source = [0x21_u8, 0x43, 0x65, 0x87];
    let args = StridedArgs {
        dst: device(memory),
        src: host(source.as_ptr()),
        element_bits: 4,
        rank: 1,
        shape: [4_i64].as_ptr(),
        dst_strides: [1_i64].as_ptr(),
        src_strides: [2_i64].as_ptr(),
    };
    // SAFETY: the arrays live to the end of the call, and both sides hold the elements.
    unsafe { cpu.copy_strided(args, StreamHandle::NONE) }.unwrap();
    assert_eq!(read(&cpu, memory, 2), [0x31, 0x75]);
}

#[test]
fn a_side_past_its_allocation_is_refused() {
    let cpu = open();
    let memory = allocate(&cpu, 100);
    let source = [0_u8; 256];
    let args = CopyArgs {
        dst: device(memory),
        src: host(source.as_ptr()),
        bytes: 101,
    };
    // SAFETY: the plugin refuses before it touches memory.
    let copied = unsafe { cpu.copy(args, StreamHandle::NONE) };
    assert_eq!(copied.map_err(|e| e.status()), Err(Status::INVALID));
    let unknown = Side {
        kind: MemoryKind::DEVICE,
        ..host(source.as_ptr())
    };
    let args = CopyArgs {
        dst: unknown,
        src: host(source.as_ptr()),
        bytes: 1,
    };
    // SAFETY: the plugin refuses before it touches memory.
    let copied = unsafe { cpu.copy(args, StreamHandle::NONE) };
    assert_eq!(copied.map_err(|e| e.status()), Err(Status::NOT_OWNER));
}

#[test]
fn memory_that_is_adopted_twice_stays_known_until_both_end() {
    let cpu = open();
    let memory = [5_u8; 64];
    let whole = host(memory.as_ptr()).address;
    let part = whole.advanced(16).unwrap();
    // SAFETY: the array outlives both adoptions.
    let first = unsafe { cpu.adopt(0, whole, MemoryKind::HOST, 64, AdoptFlags::empty()) }.unwrap();
    // SAFETY: as above.
    let second = unsafe { cpu.adopt(0, part, MemoryKind::HOST, 8, AdoptFlags::empty()) }.unwrap();
    assert_eq!(
        (first.as_pointer(), second.as_pointer()),
        (whole.as_pointer(), part.as_pointer())
    );
    cpu.release_adopted(0, first).unwrap();
    let known = cpu.pointer_query(second).unwrap();
    assert_eq!((known.kind, known.size), (MemoryKind::DEVICE, 64));
    assert!(known.flags.contains(PointerFlags::FOREIGN));
    cpu.release_adopted(0, second).unwrap();
    assert_eq!(cpu.pointer_query(whole).unwrap().kind, MemoryKind::UNOWNED);
    let again = cpu.release_adopted(0, second);
    assert_eq!(again.map_err(|e| e.status()), Err(Status::NOT_OWNER));
}

#[test]
fn what_was_adopted_of_registered_memory_is_known_until_the_last_adoption_ends() {
    let cpu = open();
    let mut memory = [5_u8; 64];
    let pointer: *mut c_void = memory.as_mut_ptr().cast();
    let part = host(memory.as_ptr()).address.advanced(16).unwrap();
    for unregisters_first in [true, false] {
        // SAFETY: the array outlives the registration.
        unsafe { cpu.register_host(0, pointer, 64) }.unwrap();
        // SAFETY: the array outlives both adoptions.
        let adopt = || unsafe { cpu.adopt(0, part, MemoryKind::HOST, 8, AdoptFlags::empty()) };
        let adopted = [adopt().unwrap(), adopt().unwrap()];
        for (adopted, is_last) in adopted.into_iter().zip([false, true]) {
            if is_last == unregisters_first {
                let known = cpu.pointer_query(part).unwrap();
                assert!(known.flags.contains(PointerFlags::FOREIGN));
            } else {
                cpu.unregister_host(0, pointer).unwrap();
                let again = cpu.unregister_host(0, pointer);
                assert_eq!(again.map_err(|e| e.status()), Err(Status::NOT_OWNER));
                assert_ne!(cpu.pointer_query(part).unwrap().kind, MemoryKind::UNOWNED);
            }
            cpu.release_adopted(0, adopted).unwrap();
        }
        assert_eq!(cpu.pointer_query(part).unwrap().kind, MemoryKind::UNOWNED);
    }
}

#[test]
fn a_registration_that_overlaps_another_is_a_conflict() {
    let cpu = open();
    let mut memory = [0_u8; 64];
    let pointer: *mut c_void = memory.as_mut_ptr().cast();
    // SAFETY: the array outlives the registration.
    unsafe { cpu.register_host(0, pointer, 64) }.unwrap();
    // SAFETY: as above.
    let again = unsafe { cpu.register_host(0, pointer, 1) };
    assert_eq!(again.map_err(|e| e.status()), Err(Status::CONFLICT));
    cpu.unregister_host(0, pointer).unwrap();
    let again = cpu.unregister_host(0, pointer);
    assert_eq!(again.map_err(|e| e.status()), Err(Status::NOT_OWNER));
}

#[test]
fn memory_freed_on_a_stream_is_known_until_the_stream_gets_there() {
    let cpu = open();
    let (stream, event) = (
        cpu.stream_create(0).unwrap(),
        cpu.event_create_host(0).unwrap(),
    );
    let memory = cpu.allocate_async(stream, 1000).unwrap();
    cpu.stream_wait_event(stream, event).unwrap();
    // SAFETY: nobody uses the memory after this point of the stream.
    unsafe { cpu.free_async(stream, memory) }.unwrap();
    assert_eq!(cpu.pointer_query(memory).unwrap().size, 1000);
    cpu.event_complete(event, Status::OK).unwrap();
    cpu.stream_synchronize(stream, u64::MAX).unwrap();
    assert_eq!(cpu.pointer_query(memory).unwrap().kind, MemoryKind::UNOWNED);
}

#[test]
fn a_host_function_runs_after_a_failure_too() {
    let cpu = open();
    let (stream, event) = (
        cpu.stream_create(0).unwrap(),
        cpu.event_create_host(0).unwrap(),
    );
    cpu.event_complete(event, Status::VENDOR).unwrap();
    cpu.stream_wait_event(stream, event).unwrap();
    let (sender, receiver) = channel::<u8>();
    let word = Box::into_raw(Box::new(sender)).cast::<c_void>();
    // SAFETY: `tell` may be called once with this word on any thread.
    unsafe { cpu.stream_host_call(stream, HostFunction(Some(tell)), word) }.unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
}

#[test]
fn a_retired_plugin_takes_no_work_and_still_frees() {
    let cpu = open();
    let (memory, stream) = (allocate(&cpu, 64), cpu.stream_create(0).unwrap());
    let event = cpu.event_create_host(0).unwrap();
    cpu.stream_wait_event(stream, event).unwrap();
    assert_eq!(cpu.retire(1).map_err(|e| e.status()), Err(Status::TIMEOUT));
    cpu.event_complete(event, Status::OK).unwrap();
    assert_eq!(cpu.retire(u64::MAX), Ok(()));
    assert_eq!(
        cpu.stream_create(0).map_err(|e| e.status()),
        Err(Status::RETIRED)
    );
    assert_eq!(free(&cpu, memory), Ok(()));
}

#[test]
fn the_child_of_a_fork_gets_an_error_and_takes_no_lock() {
    let cpu = open();
    let memory = allocate(&cpu, 64);
    cpu.at_fork_child();
    assert_eq!(free(&cpu, memory), Err(Status::FORKED));
    let none = EventHandle::NONE;
    assert_eq!(
        cpu.event_query(none).map_err(|e| e.status()),
        Err(Status::FORKED)
    );
    assert_eq!(
        cpu.pointer_query(memory).map_err(|e| e.status()),
        Err(Status::FORKED)
    );
}
