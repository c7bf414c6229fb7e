//! Validation on plugins with one fault each: the answer that cannot be is told apart.
#![expect(
    unsafe_code,
    reason = "a faulty hook calls the hook that it stands for"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

#[path = "faulty/table.rs"]
mod table;

use std::sync::Barrier;

use crossdock::{Error, Hooks, Layer};
use crossdock_sdk::abi::{
    Address, AllocateArgs, DeviceInfo, EventHandle, MemoryInfo, MemoryKind, MemoryUsage, PeerHooks,
    PluginHandle, PluginTable, PointerInfo, StaticPtr, Status, StreamHandle, StreamHooks,
};

use table::{ErrorOut, group, open, sound};

/// An open plugin with a fault, behind validation.
fn faulty(change: impl FnOnce(&mut PluginTable)) -> Hooks {
    let mut hooks = open(change);
    hooks.wrap(&[Layer::Validate]);
    hooks
}

fn allocate(hooks: &Hooks) -> Result<Address, Error> {
    hooks.allocate(AllocateArgs {
        size: 1000,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    })
}

/// Demands that the answer was told to break the contract, in these words.
#[track_caller]
fn broken<T: std::fmt::Debug>(answer: Result<T, Error>, word: &str) {
    let error = answer.unwrap_err();
    assert_eq!(
        error.status(),
        Some(Status::ABI),
        "{error}: {}",
        error.why()
    );
    assert!(error.why().contains(word), "{}", error.why());
}

#[test]
fn an_address_off_its_alignment_is_found() {
    unsafe extern "C" fn shifted(
        plugin: PluginHandle,
        args: *const AllocateArgs,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { sound().allocate.unwrap()(plugin, args, out, error) };
        // SAFETY: the hook succeeded, so `out` holds an address.
        unsafe { (*out).word += 64 };
        status
    }
    let hooks = faulty(|table| table.allocate = Some(shifted));
    broken(allocate(&hooks), "not on a multiple of 256");
}

#[test]
fn memory_that_is_given_twice_is_found() {
    unsafe extern "C" fn same(
        _: PluginHandle,
        _: *const AllocateArgs,
        out: *mut Address,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(Address::pointer(1 << 20)) };
        Status::OK
    }
    let hooks = faulty(|table| table.allocate = Some(same));
    allocate(&hooks).unwrap();
    broken(allocate(&hooks), "overlaps the live 1000 bytes");
}

#[test]
fn an_answer_that_was_not_written_is_found() {
    unsafe extern "C" fn silent(
        _: PluginHandle,
        _: u32,
        _: *mut MemoryInfo,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let hooks = faulty(|table| table.memory_info = Some(silent));
    broken(hooks.memory_info(0), "did not write `info`");
}

#[test]
fn usage_that_is_above_what_is_reserved_or_its_peak_is_found() {
    unsafe extern "C" fn says(
        _: PluginHandle,
        device: u32,
        out: *mut MemoryUsage,
        _: ErrorOut,
    ) -> Status {
        let unknown = u64::MAX;
        let (reserved, used, peak_reserved, peak_used) = match device {
            0 => (8, 9, unknown, unknown),
            1 => (8, 8, 7, 8),
            2 => (unknown, 8, unknown, 7),
            _ => (8, 8, unknown, 9),
        };
        let usage = MemoryUsage {
            reserved,
            used,
            peak_reserved,
            peak_used,
        };
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(usage) };
        Status::OK
    }
    unsafe extern "C" fn four(_: PluginHandle, out: *mut u32, _: ErrorOut) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(4) };
        Status::OK
    }
    let hooks = faulty(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let mut pool = unsafe { table.pool.as_ptr().read() };
        pool.memory_usage = Some(says);
        table.pool = group(pool);
        table.device_count = Some(four);
    });
    broken(hooks.memory_usage(0), "9 bytes are used of reserved 8");
    broken(hooks.memory_usage(1), "8 bytes are reserved of a peak of 7");
    broken(hooks.memory_usage(2), "8 bytes are used of a peak of 7");
    assert_eq!(hooks.memory_usage(3).unwrap().peak_used, 9);
    let beyond = hooks.memory_usage(4).unwrap_err();
    assert_eq!(beyond.status(), Some(Status::INVALID), "{beyond}");
}

#[test]
fn a_link_that_is_neither_there_nor_absent_and_one_with_itself_are_found() {
    unsafe extern "C" fn says(
        _: PluginHandle,
        device: u32,
        peer: u32,
        out: *mut u32,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(1 + device + peer) };
        Status::OK
    }
    unsafe extern "C" fn nothing(_: PluginHandle, _: u32, _: u32, _: ErrorOut) -> Status {
        Status::OK
    }
    unsafe extern "C" fn two(_: PluginHandle, out: *mut u32, _: ErrorOut) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(2) };
        Status::OK
    }
    let hooks = faulty(|table| {
        table.device_count = Some(two);
        table.peer = group(PeerHooks {
            peer_can_access: Some(says),
            peer_enable: Some(nothing),
            peer_disable: Some(nothing),
        });
    });
    broken(hooks.peer_can_access(0, 0), "a link with itself");
    broken(hooks.peer_can_access(0, 1), "neither 0 nor 1");
    hooks.peer_enable(0, 1).unwrap();
    let beyond = [
        hooks.peer_enable(0, 2),
        hooks.peer_disable(2, 0),
        hooks.peer_can_access(2, 2).map(drop),
    ];
    for answer in beyond {
        assert_eq!(answer.unwrap_err().status(), Some(Status::INVALID));
    }
}

#[test]
fn success_with_an_error_object_and_a_status_that_is_none_are_found() {
    unsafe extern "C" fn both(
        plugin: PluginHandle,
        _: u32,
        out: *mut DeviceInfo,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments; there is no such device, so this makes an error object.
        let _failed = unsafe { sound().device_info.unwrap()(plugin, u32::MAX, out, error) };
        Status::OK
    }
    unsafe extern "C" fn odd(_: PluginHandle, _: u32, _: *mut MemoryInfo, _: ErrorOut) -> Status {
        Status::from_raw(77)
    }
    let hooks = faulty(|table| {
        table.device_info = Some(both);
        table.memory_info = Some(odd);
    });
    broken(hooks.device_info(0), "OK with an error object");
    broken(hooks.memory_info(0), "77");
}

#[test]
fn a_free_that_frees_nothing_is_found() {
    unsafe extern "C" fn idle(
        _: PluginHandle,
        _: *const Address,
        _: MemoryKind,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let hooks = faulty(|table| table.free = Some(idle));
    let address = allocate(&hooks).unwrap();
    // SAFETY: nobody uses the memory.
    let answer = unsafe { hooks.free(address, MemoryKind::DEVICE) };
    broken(answer, "still owns");
}

#[test]
fn a_pointer_query_that_contradicts_itself_or_the_allocations_is_found() {
    unsafe extern "C" fn claims(
        _: PluginHandle,
        address: *const Address,
        out: *mut PointerInfo,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's address.
        let asked = unsafe { address.read() };
        let info = PointerInfo {
            kind: MemoryKind::DEVICE,
            base: asked,
            size: if asked.word == 8 { u64::MAX } else { 16 },
            device: u32::from(asked.word == 16),
            allocation_id: 1,
            ..PointerInfo::default()
        };
        let apart = Address::pointer(1 << 30);
        let is_apart = [24, 40].contains(&asked.word);
        let base = if is_apart { apart } else { info.base };
        // The host's address of what the device has apart from it.
        let is_of_host = asked.word == 40;
        let info = PointerInfo {
            host_pointer: if is_of_host { asked.word } else { 0 },
            device_pointer: if is_of_host { apart.word } else { 0 },
            ..info
        };
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(PointerInfo { base, ..info }) };
        Status::OK
    }
    unsafe extern "C" fn denies(
        _: PluginHandle,
        _: *const Address,
        out: *mut PointerInfo,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(PointerInfo::default()) };
        Status::OK
    }
    let hooks = faulty(|table| table.pointer_query = Some(claims));
    for (word, told) in [(8, "bytes from"), (16, "device 1"), (24, "apart from it")] {
        broken(hooks.pointer_query(Address::pointer(word)), told);
    }
    for word in [32, 40] {
        hooks.pointer_query(Address::pointer(word)).unwrap();
    }
    let hooks = faulty(|table| table.pointer_query = Some(denies));
    let address = allocate(&hooks).unwrap();
    broken(hooks.pointer_query(address), "gave it: 1000 bytes");
}

#[test]
fn a_name_without_an_end_is_found() {
    unsafe extern "C" fn endless(
        plugin: PluginHandle,
        device: u32,
        out: *mut DeviceInfo,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { sound().device_info.unwrap()(plugin, device, out, error) };
        // SAFETY: the hook succeeded, so `out` holds a description.
        unsafe { (*out).name = [b'x'; 128] };
        status
    }
    let hooks = faulty(|table| table.device_info = Some(endless));
    broken(hooks.device_info(0), "`name`");
}

#[test]
fn a_stream_that_is_none_or_given_twice_is_found() {
    unsafe extern "C" fn counts_to_seven(
        _: PluginHandle,
        _: u32,
        out: *mut StreamHandle,
        _: ErrorOut,
    ) -> Status {
        use std::sync::atomic::{AtomicU64, Ordering};
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let word = if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
            0
        } else {
            7
        };
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(StreamHandle::from_raw(word)) };
        Status::OK
    }
    let hooks = faulty(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let streams = unsafe { table.streams.as_ptr().read() };
        table.streams = group(StreamHooks {
            stream_create: Some(counts_to_seven),
            ..streams
        });
    });
    broken(hooks.stream_create(0), "NONE");
    hooks.stream_create(0).unwrap();
    broken(hooks.stream_create(0), "is live");
}

/// The sound plugin's streams with another `event_query`.
fn with_event_query(
    query: unsafe extern "C" fn(PluginHandle, EventHandle, ErrorOut) -> Status,
) -> Hooks {
    faulty(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let streams = unsafe { table.streams.as_ptr().read() };
        table.streams = group(StreamHooks {
            event_query: Some(query),
            ..streams
        });
    })
}

#[test]
fn an_event_that_takes_its_failure_back_is_found() {
    unsafe extern "C" fn happened(_: PluginHandle, _: EventHandle, _: ErrorOut) -> Status {
        Status::OK
    }
    let hooks = with_event_query(happened);
    let event = hooks.event_create_host(0).unwrap();
    hooks.event_query(event).unwrap();
    hooks.event_complete(event, Status::DEVICE_LOST).unwrap();
    let told = hooks.event_synchronize(event, u64::MAX).unwrap_err();
    assert_eq!(told.status(), Some(Status::DEVICE_LOST));
    broken(hooks.event_query(event), "DEVICE_LOST before");
    let told = hooks.event_synchronize(event, u64::MAX).unwrap_err();
    assert_eq!(told.status(), Some(Status::DEVICE_LOST));
}

#[test]
fn an_answer_that_does_not_say_whether_work_is_over_is_found() {
    unsafe extern "C" fn strange(_: PluginHandle, _: EventHandle, _: ErrorOut) -> Status {
        Status::NOT_OWNER
    }
    let hooks = with_event_query(strange);
    let event = hooks.event_create(0).unwrap();
    broken(hooks.event_query(event), "NOT_OWNER");
}

#[test]
fn another_record_of_an_event_is_about_other_work() {
    let hooks = faulty(|_| {});
    let stream = hooks.stream_create(0).unwrap();
    let (host_event, event) = (
        hooks.event_create_host(0).unwrap(),
        hooks.event_create(0).unwrap(),
    );
    hooks.stream_wait_event(stream, host_event).unwrap();
    hooks.event_record(event, stream).unwrap();
    // Destroying it while it is pending is right, and leaves nothing in the books.
    hooks.event_destroy(host_event).unwrap();
    for _ in 0..2 {
        let told = hooks.event_synchronize(event, u64::MAX).unwrap_err();
        assert_eq!(told.status(), Some(Status::VENDOR), "{}", told.why());
    }
    let told = hooks.stream_synchronize(stream, u64::MAX).unwrap_err();
    assert_eq!(told.status(), Some(Status::VENDOR), "{}", told.why());
    hooks.event_record(event, stream).unwrap();
    hooks.event_synchronize(event, u64::MAX).unwrap();
    hooks.event_destroy(event).unwrap();
    hooks.stream_destroy(stream).unwrap();
    let live = hooks.live_objects().unwrap();
    assert_eq!(live.count(), 0, "{live}");
}

/// Two threads meet here before and after a call.
static INSIDE: Barrier = Barrier::new(2);

#[test]
fn two_threads_on_one_stream_are_told_apart() {
    unsafe extern "C" fn slow(
        _: PluginHandle,
        _: StreamHandle,
        _: EventHandle,
        _: ErrorOut,
    ) -> Status {
        INSIDE.wait();
        INSIDE.wait();
        Status::OK
    }
    let hooks = faulty(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let streams = unsafe { table.streams.as_ptr().read() };
        table.streams = group(StreamHooks {
            stream_wait_event: Some(slow),
            ..streams
        });
    });
    let (stream, other) = (
        hooks.stream_create(0).unwrap(),
        hooks.stream_create(0).unwrap(),
    );
    let event = hooks.event_create(0).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| hooks.stream_wait_event(stream, event));
        INSIDE.wait();
        let answer = hooks.event_record(event, stream);
        let elsewhere = hooks.event_record(event, other);
        INSIDE.wait();
        let error = answer.unwrap_err();
        assert_eq!(error.status(), Some(Status::CONFLICT), "{error}");
        assert!(error.why().contains("another thread"), "{}", error.why());
        elsewhere.unwrap();
        waits.join().unwrap().unwrap();
    });
    hooks.event_record(event, stream).unwrap();
}

#[test]
fn a_group_that_is_absent_stays_absent_behind_a_layer() {
    let unsupported = |answer: Result<(), Error>| {
        assert_eq!(answer.unwrap_err().status(), Some(Status::UNSUPPORTED));
    };
    let bare = faulty(|table| {
        table.streams = StaticPtr::NULL;
        table.wrap = StaticPtr::NULL;
        table.host_events = StaticPtr::NULL;
        table.host_calls = StaticPtr::NULL;
        table.timing = StaticPtr::NULL;
        table.strided = StaticPtr::NULL;
        table.fill = StaticPtr::NULL;
        table.register = StaticPtr::NULL;
        table.adopt = StaticPtr::NULL;
        table.map = StaticPtr::NULL;
        table.async_memory = StaticPtr::NULL;
        table.attributes = StaticPtr::NULL;
        table.pool = StaticPtr::NULL;
    });
    let address = allocate(&bare).unwrap();
    unsupported(bare.stream_create(0).map(drop));
    unsupported(bare.event_create_host(0).map(drop));
    unsupported(bare.map(0, address, 1000).map(drop));
    unsupported(bare.release_adopted(0, address));
    unsupported(bare.allocate_async(StreamHandle::from_raw(1), 8).map(drop));
    unsupported(bare.device_attribute(0, 1).map(drop));
    unsupported(bare.memory_usage(0).map(drop));
    // SAFETY: nobody uses the memory.
    unsafe { bare.free(address, MemoryKind::DEVICE) }.unwrap();
}
