//! Contexts: the thread's stays, the plugin's comes with the first need, and work is done in that of its memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crossdock_sdk::abi::{CopyArgs, FillArgs, MemoryKind, PointerFlags, Status, StreamHandle};
use crossdock_sdk::plugin::{
    AsyncMemory as _, Fill as _, HostEvents as _, Plugin as _, Pool as _, Register as _,
    Streams as _, Wrap as _,
};

use crate::driver::Driver;
use crate::hooks::{
    BYTES, LIMIT_NS, allocate, device, download, free, open, query, round_trip, upload,
};
use crate::{POLICIES, over};

#[test]
fn listing_devices_makes_no_context() {
    if !over("contexts::listing_devices_makes_no_context", &POLICIES[..1]) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    assert_eq!(cuda.device_count(), 2);
    for index in 0..2 {
        let info = cuda.device_info(index).unwrap();
        let memory = cuda.memory_info(index).unwrap();
        assert_eq!((memory.free, memory.total), (u64::MAX, info.total_memory));
        assert_eq!(query(&cuda, 4096).kind, MemoryKind::UNOWNED);
    }
    assert!(!driver.has_primary_context(0) && !driver.has_primary_context(1));
    let memory = allocate(&cuda, MemoryKind::DEVICE, 1).unwrap();
    assert!(!driver.has_primary_context(0) && driver.has_primary_context(1));
    assert!(cuda.memory_info(1).unwrap().free < u64::MAX);
    assert_eq!(driver.current(), 0);
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert!(!driver.has_primary_context(1));
    assert_eq!(driver.leaks(), 0);
}

#[test]
fn work_leaves_the_threads_context_as_it_is() {
    if !over(
        "contexts::work_leaves_the_threads_context_as_it_is",
        &POLICIES,
    ) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    for others in [0, driver.create_context(1)] {
        assert!(others == 0 || driver.current() == others);
        let before = driver.current();
        let stream = cuda.stream_create(0).unwrap();
        for kind in [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED] {
            let memory = allocate(&cuda, kind, 0).unwrap();
            round_trip(&cuda, device(memory.word, 0), StreamHandle::NONE).unwrap();
            round_trip(&cuda, device(memory.word, 0), stream).unwrap();
            free(&cuda, memory, kind).unwrap();
        }
        cuda.stream_destroy(stream).unwrap();
        assert_eq!(driver.current(), before);
    }
}

#[test]
fn memory_of_others_is_worked_on_in_their_context() {
    if !over(
        "contexts::memory_of_others_is_worked_on_in_their_context",
        &POLICIES,
    ) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(1);
    let (memory, pinned) = (driver.allocate(BYTES), driver.allocate_pinned(BYTES));
    let info = query(&cuda, memory + 100);
    assert_eq!((info.kind, info.device), (MemoryKind::DEVICE, 1));
    assert_eq!((info.base.word, info.size), (memory, BYTES as u64));
    assert_eq!((info.context, info.host_pointer), (context, 0));
    assert_eq!(info.device_pointer, memory + 100);
    assert!(info.flags.contains(PointerFlags::FOREIGN));
    let host = query(&cuda, pinned);
    assert_eq!((host.kind, host.host_pointer), (MemoryKind::PINNED, pinned));
    assert!(host.flags.contains(PointerFlags::FOREIGN) && host.allocation_id != info.allocation_id);

    let native = driver.create_stream();
    // SAFETY: it is a live stream, which outlives its wrap.
    let theirs = unsafe { cuda.stream_wrap(1, native) }.unwrap();
    // SAFETY: as above.
    let elsewhere = unsafe { cuda.stream_wrap(0, native) };
    assert_eq!(elsewhere.unwrap_err().status(), Status::INVALID);
    let (own, other) = (
        cuda.stream_create(1).unwrap(),
        cuda.stream_create(0).unwrap(),
    );
    for stream in [StreamHandle::NONE, theirs, own, other] {
        round_trip(&cuda, device(memory, 1), stream).unwrap();
    }
    let refused = free(&cuda, info.base, MemoryKind::DEVICE);
    assert_eq!(refused.unwrap_err().status(), Status::NOT_OWNER);
    for stream in [theirs, own, other] {
        cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
        cuda.stream_destroy(stream).unwrap();
    }
    assert_eq!(driver.current(), context);
    driver.destroy_stream(native);
    driver.free(memory);
    driver.free_pinned(pinned);
    assert_eq!(query(&cuda, memory).kind, MemoryKind::UNOWNED);
    driver.destroy_context(context);
}

/// The driver says that memory of a pool is of the device's own context, which may not be there yet.
#[test]
fn memory_of_another_librarys_pool_is_worked_on_where_nobody_uses_the_devices_own_context() {
    let name = "contexts::memory_of_another_librarys_pool_is_worked_on_where_nobody_uses_the_devices_own_context";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(1);
    let native = driver.create_stream();
    let memories = [(); 2].map(|()| driver.allocate_on(native, BYTES));
    driver.synchronize();
    driver.pop();
    let stream = cuda.stream_create(0).unwrap();
    assert!(!driver.has_primary_context(1));
    let fill = FillArgs {
        dst: device(memories[0], 1),
        bytes: BYTES as u64,
        pattern: [7; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    let copy = CopyArgs {
        dst: device(memories[1], 1),
        src: device(memories[0], 1),
        bytes: BYTES as u64,
    };
    // SAFETY: the memory is the context's until the work is over.
    unsafe { cuda.fill(fill, stream) }.unwrap();
    // SAFETY: as above.
    unsafe { cuda.copy(copy, stream) }.unwrap();
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    let mut bytes = [0; BYTES];
    download(
        &cuda,
        &mut bytes,
        device(memories[1], 1),
        StreamHandle::NONE,
    )
    .unwrap();
    assert_eq!(bytes, [7; BYTES]);
    cuda.stream_destroy(stream).unwrap();
    driver.destroy_stream(native);
    driver.destroy_context(context);
}

#[test]
fn every_thread_keeps_its_stack_of_contexts_also_one_that_never_had_any() {
    let name = "contexts::every_thread_keeps_its_stack_of_contexts_also_one_that_never_had_any";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let (lower, upper) = (driver.create_context(1), driver.create_context(0));
    let work = || {
        let stream = cuda.stream_create(0).unwrap();
        for device_index in [0, 1] {
            let memory = allocate(&cuda, MemoryKind::DEVICE, device_index).unwrap();
            for on in [StreamHandle::NONE, stream] {
                round_trip(&cuda, device(memory.word, device_index), on).unwrap();
            }
            query(&cuda, memory.word);
            cuda.memory_info(device_index).unwrap();
            // What fails leaves it alone too.
            round_trip(&cuda, device(4096, device_index), stream).unwrap_err();
            free(&cuda, memory, MemoryKind::DEVICE).unwrap();
        }
        cuda.stream_destroy(stream).unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert_eq!(driver.current(), 0);
                work();
                assert_eq!(driver.current(), 0);
            });
        }
        work();
    });
    assert_eq!(driver.current(), upper);
    driver.destroy_context(upper);
    assert_eq!(driver.current(), lower);
    driver.destroy_context(lower);
}

#[test]
fn nothing_of_a_context_is_needed_once_its_work_is_over_and_its_streams_are_gone() {
    let name =
        "contexts::nothing_of_a_context_is_needed_once_its_work_is_over_and_its_streams_are_gone";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let mut bytes = [7; BYTES];
    let locked = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: the bytes outlive the registration.
    unsafe { cuda.register_host(0, locked, BYTES as u64) }.unwrap();
    let context = driver.create_context(0);
    let native = driver.create_stream();
    // SAFETY: it is a live stream, which outlives its wrap.
    let stream = unsafe { cuda.stream_wrap(0, native) }.unwrap();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    upload(&cuda, device(memory.word, 0), &bytes, stream).unwrap();
    // SAFETY: the stream frees it behind its last use.
    unsafe { cuda.free_async(stream, memory) }.unwrap();
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    cuda.stream_destroy(stream).unwrap();
    driver.destroy_stream(native);
    driver.destroy_context(context);

    assert_eq!(cuda.memory_usage(0).unwrap().used, 0);
    cuda.unregister_host(0, locked).unwrap();
    // SAFETY: as above.
    unsafe { cuda.register_host(0, locked, BYTES as u64) }.unwrap();
    cuda.unregister_host(0, locked).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}

#[test]
fn a_context_ends_while_a_retire_waits_for_what_was_on_its_stream() {
    let name = "contexts::a_context_ends_while_a_retire_waits_for_what_was_on_its_stream";
    if !over(name, &POLICIES) {
        return;
    }
    let driver = Driver::open();
    for _ in 0..20 {
        let cuda = open();
        let context = driver.create_context(1);
        let native = driver.create_stream();
        let gate = cuda.event_create_host(1).unwrap();
        // SAFETY: it is a live stream, which outlives its wrap.
        let wrapped = unsafe { cuda.stream_wrap(1, native) }.unwrap();
        cuda.stream_wait_event(wrapped, gate).unwrap();
        driver.take_calls();
        std::thread::scope(|scope| {
            let retired = scope.spawn(|| cuda.retire(LIMIT_NS));
            while !driver.take_calls().contains_key("cuEventQuery") && !retired.is_finished() {
                std::thread::yield_now();
            }
            cuda.stream_destroy(wrapped).unwrap();
            cuda.event_complete(gate, Status::OK).unwrap();
            driver.destroy_stream(native);
            driver.destroy_context(context);
            retired.join().unwrap().unwrap();
        });
        drop(cuda);
    }
    assert_eq!(driver.reports(), 0, "{}", driver.take_reports());
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
}

#[test]
fn a_context_ends_while_a_trim_asks_whether_streams_have_work() {
    let name = "contexts::a_context_ends_while_a_trim_asks_whether_streams_have_work";
    // Without pools the plugin keeps blocks, which a trim frees unless a stream has work.
    let runs = ["lazy", "threads"].map(|policy| {
        let set = "missing=cuMemPoolCreate";
        ["--cuda", "2", "--policy", policy, "--set", set]
    });
    if !over(name, &runs.each_ref().map(<[&str; 6]>::as_slice)) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                cuda.memory_trim(0, 0).unwrap();
            }
        });
        for _ in 0..200 {
            let context = driver.create_context(0);
            let native = driver.create_stream();
            // SAFETY: it is a live stream, which outlives its wrap.
            let wrapped = unsafe { cuda.stream_wrap(0, native) }.unwrap();
            cuda.stream_destroy(wrapped).unwrap();
            driver.destroy_stream(native);
            driver.destroy_context(context);
        }
        is_over.store(true, SeqCst);
    });
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert_eq!(driver.reports(), 0, "{}", driver.take_reports());
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
}
