//! Streams that are destroyed while their work runs: the driver's own goes once the work is over.

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{
    Address, DefaultStream, EventHandle, FillArgs, MemoryKind, Status, StreamHandle,
};
use crossdock_sdk::plugin::{
    Fill as _, HostEvents as _, Plugin as _, Pool as _, Streams as _, Wrap as _,
};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open};
use crate::{POLICIES, over};

#[test]
fn a_busy_stream_is_destroyed_once_its_work_is_over_and_a_retire_waits_for_it() {
    let name = "ended::a_busy_stream_is_destroyed_once_its_work_is_over_and_a_retire_waits_for_it";
    if !over(name, &POLICIES) {
        return;
    }
    let (plugin, driver) = (open(), Driver::open());
    let leaks = || driver.leaks();
    let [busy, idle] = [(); 2].map(|()| plugin.stream_create(0).unwrap());
    let event = plugin.event_create_host(0).unwrap();
    let before = leaks();
    plugin.stream_wait_event(busy, event).unwrap();
    plugin.stream_destroy(busy).unwrap();
    assert_eq!(leaks(), before, "its work runs");
    plugin.stream_destroy(idle).unwrap();
    assert_eq!(leaks(), before - 1, "nothing runs there");
    let late = plugin.retire(1_000_000).unwrap_err();
    assert_eq!(late.status(), Status::TIMEOUT);
    plugin.event_complete(event, Status::OK).unwrap();
    plugin.retire(LIMIT_NS).unwrap();
    assert_eq!(leaks(), before - 2);
    plugin.event_destroy(event).unwrap();
}

#[test]
fn a_close_waits_for_streams_that_were_destroyed_while_their_work_ran() {
    let name = "ended::a_close_waits_for_streams_that_were_destroyed_while_their_work_ran";
    if !over(name, &POLICIES) {
        return;
    }
    let (plugin, driver) = (open(), Driver::open());
    let leaks = || driver.leaks();
    let (stream, event) = (plugin.stream_create(0), plugin.event_create_host(0));
    let (stream, event) = (stream.unwrap(), event.unwrap());
    plugin.stream_wait_event(stream, event).unwrap();
    plugin.stream_destroy(stream).unwrap();
    // This fails the event, behind which the work goes on.
    drop(plugin);
    assert_eq!(leaks(), 0);
}

/// A value of pinned memory that a stream of the thread's context waits for, behind the plugin's back.
fn hold(driver: &Driver, native: u64) -> u64 {
    let flag = driver.allocate_pinned(4);
    Driver::write_pinned(flag, 0);
    driver.wait_value(native, flag);
    flag
}

fn fill(cuda: &Cuda, memory: Address, stream: StreamHandle) {
    let args = FillArgs {
        dst: device(memory.word, 0),
        bytes: BYTES as u64,
        pattern: [3; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: the memory lives until its work is over.
    unsafe { cuda.fill(args, stream) }.unwrap();
}

/// Closes the plugin while calls fail and work waits for a flag. The close calls `waits` while it waits, and `goes_on`
/// afterwards.
fn close_behind(cuda: Cuda, driver: &Driver, flag: u64, fault: &str, [waits, goes_on]: [&str; 2]) {
    driver.take_calls();
    driver.arm(fault);
    std::thread::scope(|scope| {
        let close = scope.spawn(move || drop(cuda));
        let is_early = loop {
            let calls = driver.take_calls();
            if calls.contains_key(goes_on) || close.is_finished() {
                break true;
            }
            if calls.contains_key(waits) {
                break false;
            }
            std::thread::yield_now();
        };
        assert!(driver.disarm() > 0, "{fault}");
        Driver::write_pinned(flag, 1);
        close.join().unwrap();
        assert!(!is_early, "{fault}: the close did not wait");
    });
}

#[test]
fn a_close_waits_for_a_destroyed_stream_although_the_first_wait_fails() {
    let name = "ended::a_close_waits_for_a_destroyed_stream_although_the_first_wait_fails";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    driver.enter_primary_context(0);
    let stream = cuda.stream_create(0).unwrap();
    let flag = hold(&driver, cuda.stream_native(stream).unwrap());
    cuda.stream_destroy(stream).unwrap();
    let calls = ["cuStreamQuery", "cuStreamDestroy_v2"];
    close_behind(cuda, &driver, flag, "cuStreamSynchronize@1=2", calls);
    driver.free_pinned(flag);
    driver.leave_primary_context(0);
    assert_eq!((driver.leaks(), driver.reports()), (0, 0));
}

#[test]
fn a_close_waits_for_the_remembered_end_of_a_stream_although_the_first_wait_fails() {
    let name =
        "ended::a_close_waits_for_the_remembered_end_of_a_stream_although_the_first_wait_fails";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    driver.enter_primary_context(1);
    let native = driver.create_stream();
    let flag = hold(&driver, native);
    // SAFETY: it is destroyed after the close.
    let theirs = unsafe { cuda.stream_wrap(1, native) }.unwrap();
    // It waits for a value in memory of the first device.
    let event = cuda.event_create_host(0).unwrap();
    cuda.stream_wait_event(theirs, event).unwrap();
    cuda.stream_destroy(theirs).unwrap();
    let calls = ["cuEventQuery", "cuEventDestroy_v2"];
    close_behind(cuda, &driver, flag, "cuEventSynchronize@1=2", calls);
    driver.destroy_stream(native);
    driver.free_pinned(flag);
    driver.leave_primary_context(1);
    assert_eq!((driver.leaks(), driver.reports()), (0, 0));
}

#[test]
fn a_close_waits_for_a_wrapped_stream_although_queries_fail() {
    let name = "ended::a_close_waits_for_a_wrapped_stream_although_queries_fail";
    if !over(name, &POLICIES) {
        return;
    }
    let driver = Driver::open();
    let faults = [
        ("cuStreamIsCapturing@1=999", "cuEventSynchronize"),
        ("cuStreamIsCapturing@1+=999", "cuStreamSynchronize"),
    ];
    for (fault, waits) in faults {
        let cuda = open();
        driver.enter_primary_context(0);
        let native = driver.create_stream();
        // SAFETY: it is destroyed after the close.
        let theirs = unsafe { cuda.stream_wrap(0, native) }.unwrap();
        let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
        let flag = hold(&driver, native);
        fill(&cuda, memory, theirs);
        close_behind(cuda, &driver, flag, fault, [waits, "cuStreamDestroy_v2"]);
        driver.destroy_stream(native);
        driver.free_pinned(flag);
        driver.leave_primary_context(0);
        assert_eq!((driver.leaks(), driver.reports()), (0, 0), "{fault}");
    }
}

#[test]
fn a_close_frees_nothing_while_it_cannot_wait_for_a_captured_stream() {
    let name = "ended::a_close_frees_nothing_while_it_cannot_wait_for_a_captured_stream";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let default = cuda.stream_default(0, DefaultStream::LEGACY).unwrap();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    driver.enter_primary_context(0);
    let flag = hold(&driver, cuda.stream_native(default).unwrap());
    fill(&cuda, memory, default);
    // As while a blocking stream is captured.
    driver.arm("cuStreamIsCapturing@1+=906");
    drop(cuda);
    assert!(driver.disarm() > 0);
    Driver::write_pinned(flag, 1);
    driver.synchronize();
    assert!(driver.list_leaks().contains("an allocation"));
    assert_eq!(driver.reports(), 0, "{}", driver.take_reports());
}

#[test]
fn a_stream_is_destroyed_although_its_context_is_refused() {
    let name = "ended::a_stream_is_destroyed_although_its_context_is_refused";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let [first, second, third] = [(); 3].map(|()| cuda.stream_create(0).unwrap());
    let before = driver.leaks();
    driver.arm("cuCtxPushCurrent_v2@1=2");
    cuda.stream_destroy(first).unwrap();
    assert_eq!((driver.disarm(), driver.leaks()), (1, before - 1));
    driver.arm("cuCtxPushCurrent_v2@1+=2");
    cuda.stream_destroy(second).unwrap();
    assert!(driver.disarm() > 1);
    cuda.stream_destroy(third).unwrap();
    assert_eq!(driver.leaks(), before - 3, "{}", driver.list_leaks());
    assert_eq!(driver.reports(), 0);
}

#[test]
fn a_busy_stream_is_kept_where_the_driver_does_not_say_whether_it_is_captured() {
    let name = "ended::a_busy_stream_is_kept_where_the_driver_does_not_say_whether_it_is_captured";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let (stream, event) = (
        cuda.stream_create(0).unwrap(),
        cuda.event_create_host(0).unwrap(),
    );
    cuda.stream_native(stream).unwrap();
    cuda.stream_wait_event(stream, event).unwrap();
    let before = driver.leaks();
    driver.arm("cuStreamIsCapturing@1+=999");
    cuda.stream_destroy(stream).unwrap();
    assert!(driver.disarm() > 0);
    assert_eq!(driver.leaks(), before, "its work runs");
    cuda.event_complete(event, Status::OK).unwrap();
    cuda.retire(LIMIT_NS).unwrap();
    assert_eq!(driver.leaks(), before - 1);
    cuda.event_destroy(event).unwrap();
}

/// Trims while work of a destroyed stream waits for a host event.
fn trim_before(cuda: &Cuda, driver: &Driver, gate: EventHandle) {
    driver.take_calls();
    std::thread::scope(|scope| {
        let trim = scope.spawn(|| cuda.memory_trim(0, 0));
        let waits = loop {
            let waits = driver.take_calls().contains_key("cuMemFree_v2");
            if waits || trim.is_finished() {
                break waits;
            }
            std::thread::yield_now();
        };
        cuda.event_complete(gate, Status::OK).unwrap();
        trim.join().unwrap().unwrap();
        assert!(!waits, "the trim waited for the device");
    });
    while !driver.take_calls().contains_key("cuMemFree_v2") {
        cuda.memory_trim(0, 0).unwrap();
    }
    cuda.event_destroy(gate).unwrap();
}

#[test]
fn a_trim_frees_no_block_while_a_destroyed_stream_has_work() {
    let name = "ended::a_trim_frees_no_block_while_a_destroyed_stream_has_work";
    let set = ["--set", "missing=cuMemPoolCreate"];
    let runs = POLICIES.map(|policy| [policy, &set].concat());
    if !over(name, &runs.each_ref().map(Vec::as_slice)) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(0);
    let native = driver.create_stream();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    // SAFETY: it is a live stream, which outlives its wrap.
    let theirs = unsafe { cuda.stream_wrap(0, native) }.unwrap();
    for stream in [cuda.stream_create(0).unwrap(), theirs] {
        let idle = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
        let gate = cuda.event_create_host(0).unwrap();
        cuda.stream_wait_event(stream, gate).unwrap();
        fill(&cuda, memory, stream);
        cuda.stream_destroy(stream).unwrap();
        free(&cuda, idle, MemoryKind::DEVICE).unwrap();
        trim_before(&cuda, &driver, gate);
    }
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    driver.destroy_stream(native);
    driver.destroy_context(context);
    assert_eq!((driver.leaks(), driver.reports()), (0, 0));
}
