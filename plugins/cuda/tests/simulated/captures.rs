//! Captures of others: they are not joined, and not ended.

use crossdock::{Event, Stream, Tensor};
use crossdock_sdk::abi::{MemoryKind, Status, StreamHandle};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{HostEvents as _, Plugin as _, Pool as _, Streams as _, Wrap as _};

use crate::driver::Driver;
use crate::exchanges::LIMIT;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, download, free, open, round_trip, upload};
use crate::{POLICIES, over, runtime};

#[test]
fn a_capture_goes_on_beside_other_work_and_refuses_its_own() {
    let name = "captures::a_capture_goes_on_beside_other_work_and_refuses_its_own";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(0);
    let native = driver.create_stream();
    // SAFETY: it is a live stream, which outlives its wrap.
    let wrapped = unsafe { cuda.stream_wrap(0, native) }.unwrap();
    let own = cuda.stream_create(0).unwrap();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    driver.begin_capture(native);

    let side = device(memory.word, 0);
    let event = cuda.event_create(0).unwrap();
    let refused = [
        round_trip(&cuda, side, wrapped),
        cuda.stream_query(wrapped),
        cuda.stream_synchronize(wrapped, LIMIT_NS),
        cuda.stream_synchronize(wrapped, 0),
        cuda.event_record(event, wrapped),
    ];
    for answer in refused {
        let error = answer.unwrap_err();
        assert_eq!(error.status(), Status::CAPTURING, "{error}");
        assert!(error.message().contains("capture"), "{error}");
    }

    // What a capture forbids this thread is done all the same.
    for kind in [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED] {
        let other = allocate(&cuda, kind, 0).unwrap();
        round_trip(&cuda, device(other.word, 0), StreamHandle::NONE).unwrap();
        round_trip(&cuda, device(other.word, 0), own).unwrap();
        free(&cuda, other, kind).unwrap();
    }
    cuda.event_record(event, own).unwrap();
    cuda.event_synchronize(event, LIMIT_NS).unwrap();
    cuda.memory_trim(0, 0).unwrap();
    assert_eq!(driver.end_capture(native), 0);

    round_trip(&cuda, side, wrapped).unwrap();
    cuda.stream_destroy(wrapped).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    driver.destroy_stream(native);
    assert_eq!(driver.current(), context);
}

#[test]
fn memory_that_ends_while_its_stream_is_captured_is_freed_behind_its_work() {
    let name = "captures::memory_that_ends_while_its_stream_is_captured_is_freed_behind_its_work";
    if !over(name, &POLICIES) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let context = driver.create_context(0);
    let native = driver.create_stream();
    let device = runtime.device("cuda:0".parse().unwrap()).unwrap();
    // SAFETY: it is a live stream, which outlives its wrap.
    let wrapped = unsafe { Stream::wrap(&device, native) }.unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[1000]).unwrap();
    let (tensor, held) = (
        Tensor::empty(&device, &layout).unwrap(),
        Event::host(&device).unwrap(),
    );
    wrapped.wait(&held).unwrap();
    tensor.fill(&[7], Some(&wrapped)).unwrap();
    driver.begin_capture(native);
    drop(tensor);
    let used = device.memory_usage().unwrap().used;
    assert!(
        used >= 1000,
        "{used} bytes are in use behind the held stream"
    );
    held.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(driver.end_capture(native), 0);
    let freed = device.memory_usage().unwrap().used;
    assert!(
        freed < 1000,
        "{freed} bytes are in use once its work is over"
    );
    assert_eq!(crossdock::counted_leaks(), 0);
    drop(wrapped);
    driver.destroy_stream(native);
    driver.destroy_context(context);
    assert_eq!(driver.reports(), 0);
}

#[test]
fn a_refused_copy_leaves_the_capture_and_the_copy_before_it_alone() {
    let name = "captures::a_refused_copy_leaves_the_capture_and_the_copy_before_it_alone";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(0);
    let own = cuda.stream_create(0).unwrap();
    let (theirs, shown) = (driver.create_stream(), cuda.stream_native(own).unwrap());
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let side = device(memory.word, 0);
    upload(&cuda, side, &[7; BYTES], StreamHandle::NONE).unwrap();
    let gates = [0; 4].map(|device| cuda.event_create_host(device).unwrap());
    driver.take_calls();
    let cases = [
        (theirs, false),
        (theirs, true),
        (shown, false),
        (shown, true),
    ];
    for ((native, ends_first), gate) in cases.into_iter().zip(gates) {
        // SAFETY: it is a live stream, which outlives its wrap.
        let wrapped = unsafe { cuda.stream_wrap(0, native) }.unwrap();
        let mut bytes = [0; BYTES];
        cuda.stream_wait_event(wrapped, gate).unwrap();
        download(&cuda, &mut bytes, side, wrapped).unwrap();
        driver.begin_capture(native);
        let refused = upload(&cuda, side, &[8; BYTES], wrapped).unwrap_err();
        assert_eq!(refused.status(), Status::CAPTURING, "{refused}");
        let end = || assert_eq!(driver.end_capture(native), 0, "{ends_first}");
        if ends_first {
            end();
            cuda.stream_destroy(wrapped).unwrap();
        } else {
            cuda.stream_destroy(wrapped).unwrap();
            end();
        }
        cuda.event_complete(gate, Status::OK).unwrap();
        driver.synchronize();
        assert_eq!(bytes, [7; BYTES]);
    }
    // One block served all copies.
    assert_eq!(driver.take_calls().get("cuMemHostAlloc"), Some(&1));
    cuda.stream_destroy(own).unwrap();
    driver.destroy_stream(theirs);
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    driver.destroy_context(context);
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
    assert_eq!(driver.reports(), 0);
}

#[test]
fn nothing_is_put_behind_an_event_that_a_capture_has() {
    let name = "captures::nothing_is_put_behind_an_event_that_a_capture_has";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(0);
    let native = driver.create_stream();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    // SAFETY: it is a live stream, which outlives its wrap.
    let wrapped = unsafe { cuda.stream_wrap(0, native) }.unwrap();
    round_trip(&cuda, device(memory.word, 0), wrapped).unwrap();
    driver.take_calls();
    // As where the capture began while the end of the copy was being marked.
    driver.arm("cuEventQuery@1+=907");
    cuda.stream_destroy(wrapped).unwrap();
    assert!(driver.disarm() > 0);
    let calls = driver.take_calls();
    for put in ["cuStreamWaitEvent", "cuLaunchHostFunc", "cuEventRecord"] {
        assert_eq!(calls.get(put), None, "{put}");
    }
    driver.destroy_stream(native);
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    driver.destroy_context(context);
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
}

#[test]
fn a_stream_that_is_captured_ends_with_no_more_work_on_it() {
    let name = "captures::a_stream_that_is_captured_ends_with_no_more_work_on_it";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let stream = cuda.stream_create(0).unwrap();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    round_trip(&cuda, device(memory.word, 0), stream).unwrap();
    driver.begin_capture(cuda.stream_native(stream).unwrap());
    driver.take_calls();
    cuda.stream_destroy(stream).unwrap();
    let calls = driver.take_calls();
    for put in ["cuLaunchHostFunc", "cuEventRecord"] {
        assert_eq!(calls.get(put), None, "{put}");
    }
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
    assert_eq!(driver.reports(), 0);
}

#[test]
fn a_failure_that_is_told_while_its_stream_is_captured_leaves_the_capture_alone() {
    let name =
        "captures::a_failure_that_is_told_while_its_stream_is_captured_leaves_the_capture_alone";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let context = driver.create_context(0);
    let native = driver.create_stream();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let gate = cuda.event_create_host(0).unwrap();
    // SAFETY: it is a live stream, which outlives its wrap.
    let wrapped = unsafe { cuda.stream_wrap(0, native) }.unwrap();
    let mut bytes = [0; BYTES];
    cuda.stream_wait_event(wrapped, gate).unwrap();
    driver.arm("exec:cuMemcpyDtoHAsync_v2@1=1");
    download(&cuda, &mut bytes, device(memory.word, 0), wrapped).unwrap();
    driver.take_calls();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cuda.stream_synchronize(wrapped, LIMIT_NS));
        // From its first question about the end of the work on, it puts nothing on the stream.
        while !driver.take_calls().contains_key("cuEventQuery") && !waiting.is_finished() {
            std::thread::yield_now();
        }
        driver.begin_capture(native);
        cuda.event_complete(gate, Status::OK).unwrap();
        let failed = waiting.join().unwrap().unwrap_err();
        assert_eq!(failed.status(), Status::VENDOR, "{failed}");
    });
    assert_eq!(driver.disarm(), 1);
    assert_eq!(driver.end_capture(native), 0);
    cuda.stream_destroy(wrapped).unwrap();
    driver.destroy_stream(native);
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    driver.destroy_context(context);
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
}

#[test]
fn a_question_leaves_the_capture_of_a_shown_stream_alone() {
    let name = "captures::a_question_leaves_the_capture_of_a_shown_stream_alone";
    if !over(name, &POLICIES) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let context = driver.create_context(0);
    let device = runtime.device("cuda:0".parse().unwrap()).unwrap();
    let stream = Stream::new(&device).unwrap();
    let native = stream.native_handle().unwrap();
    driver.begin_capture(native);
    let asked = [
        stream.is_idle().map(drop),
        stream.synchronize(LIMIT),
        stream.synchronize(Some(std::time::Duration::ZERO)),
    ];
    let refused = asked.map(|answer| answer.unwrap_err().status());
    assert_eq!(refused, [Some(Status::CAPTURING); 3]);
    assert_eq!(driver.end_capture(native), 0);
    assert_eq!(driver.current(), context);
}

#[test]
fn a_captured_stream_that_has_work_is_destroyed_once_both_are_over() {
    let name = "captures::a_captured_stream_that_has_work_is_destroyed_once_both_are_over";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let (stream, gate) = (
        cuda.stream_create(0).unwrap(),
        cuda.event_create_host(0).unwrap(),
    );
    let native = cuda.stream_native(stream).unwrap();
    cuda.stream_wait_event(stream, gate).unwrap();
    driver.begin_capture(native);
    driver.take_calls();
    cuda.stream_destroy(stream).unwrap();
    assert_eq!(driver.take_calls().get("cuStreamDestroy_v2"), None);
    assert_eq!(driver.end_capture(native), 0);
    cuda.event_complete(gate, Status::OK).unwrap();
    cuda.retire(LIMIT_NS).unwrap();
    let destroyed = driver.take_calls();
    assert_eq!(destroyed.get("cuStreamDestroy_v2"), Some(&1));
    cuda.event_destroy(gate).unwrap();
    drop(cuda);
    assert_eq!((driver.leaks(), driver.reports()), (0, 0));
}
