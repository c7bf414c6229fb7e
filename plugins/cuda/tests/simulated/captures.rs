//! Captures of others: they are not joined, and not ended.

use crossdock::{Event, Stream, Tensor};
use crossdock_sdk::abi::{MemoryKind, Status, StreamHandle};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{Pool as _, Streams as _, Wrap as _};

use crate::driver::Driver;
use crate::exchanges::LIMIT;
use crate::hooks::{LIMIT_NS, allocate, device, free, open, round_trip};
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
