//! Waits for a stream that shares its hardware queue with streams that wait for a host event.

use std::time::Duration;

use crossdock::{Device, Event, Stream, Tensor};
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{HostEvents as _, Streams as _};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open, upload};
use crate::{over, runtime};

/// No work is delayed, so this is long enough for a busy machine, and short enough for a test that fails.
const LIMIT: Option<Duration> = Some(Duration::from_secs(3));

/// One hardware queue for all streams.
const ONE_QUEUE: [&[&str]; 3] = [
    &["--policy", "lazy", "--queues", "1"],
    &["--policy", "seeded", "--queues", "1"],
    &["--policy", "threads", "--queues", "1"],
];

/// How a program has a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Only Crossdock uses it.
    Crossdock,
    /// Crossdock made it, and the program has its native handle.
    Program,
    /// Another library made it.
    Foreign,
    /// It is the default stream of the device.
    Driver,
}

const OWNERS: [Owner; 4] = [
    Owner::Crossdock,
    Owner::Program,
    Owner::Foreign,
    Owner::Driver,
];

fn stream(device: &Device, owner: Owner, native: u64) -> Stream {
    match owner {
        Owner::Crossdock | Owner::Program => {
            let made = Stream::new(device).unwrap();
            if owner == Owner::Program {
                made.native_handle().unwrap();
            }
            made
        }
        // SAFETY: it is a live stream, which outlives its wrap.
        Owner::Foreign => unsafe { Stream::wrap(device, native) }.unwrap(),
        Owner::Driver => Stream::default_of(device).unwrap(),
    }
}

/// Memory with work on a stream.
fn with_work(stream: &Stream) -> Tensor {
    let layout = Layout::compact(Dtype::UINT8, &[100_000]).unwrap();
    let tensor = Tensor::empty(stream.device(), &layout).unwrap();
    tensor.fill(&[7], Some(stream)).unwrap();
    tensor
}

/// Streams that wait for a host event.
fn hold(device: &Device, count: usize) -> (Event, Vec<Stream>) {
    let held = Event::host(device).unwrap();
    let streams: Vec<_> = (0..count).map(|_| Stream::new(device).unwrap()).collect();
    for stream in &streams {
        stream.wait(&held).unwrap();
    }
    (held, streams)
}

fn each_owner_waits(streams: usize) {
    let (runtime, driver) = (runtime(), Driver::open());
    let context = driver.create_context(0);
    let native = driver.create_stream();
    let device = runtime.device("cuda:0".parse().unwrap()).unwrap();
    for owner in OWNERS {
        let stream = stream(&device, owner, native);
        let tensor = with_work(&stream);
        let (held, others) = hold(&device, streams);
        let ended = stream.synchronize(LIMIT);
        assert!(ended.is_ok(), "{owner:?}: {ended:?}");
        assert!(stream.is_idle().unwrap(), "{owner:?}");
        tensor.synchronize(LIMIT).unwrap();
        held.complete(Status::OK).unwrap();
        for other in others {
            other.synchronize(LIMIT).unwrap();
        }
    }
    driver.destroy_stream(native);
    driver.destroy_context(context);
    assert_eq!(driver.reports(), 0);
}

#[test]
fn a_stream_is_synchronized_on_the_queue_of_a_held_stream() {
    let name = "shared_queues::a_stream_is_synchronized_on_the_queue_of_a_held_stream";
    if over(name, &ONE_QUEUE) {
        each_owner_waits(1);
    }
}

#[test]
fn a_stream_is_synchronized_where_held_streams_have_all_queues() {
    let name = "shared_queues::a_stream_is_synchronized_where_held_streams_have_all_queues";
    let options: [&[&str]; 1] = [&["--policy", "lazy", "--queues", "8"]];
    if over(name, &options) {
        each_owner_waits(17);
    }
}

#[test]
fn a_point_without_new_work_is_reached_on_the_queue_of_a_held_stream() {
    let name = "shared_queues::a_point_without_new_work_is_reached_on_the_queue_of_a_held_stream";
    if !over(name, &ONE_QUEUE) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let device = runtime.device("cuda:0".parse().unwrap()).unwrap();
    let stream = Stream::new(&device).unwrap();
    // Its free is the last work.
    drop(with_work(&stream));
    let (held, others) = hold(&device, 1);
    // The driver reaches this marker after the host event.
    let end = stream.record().unwrap();
    end.synchronize(LIMIT).unwrap();
    stream.synchronize(LIMIT).unwrap();
    assert!(stream.is_idle().unwrap());
    held.complete(Status::OK).unwrap();
    drop(others);
    runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(driver.reports(), 0);
}

#[test]
fn repeated_waits_leave_one_marker() {
    let name = "shared_queues::repeated_waits_leave_one_marker";
    if !over(name, &ONE_QUEUE) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let bytes = [7; BYTES];
    let [stream, held] = [0; 2].map(|device| cuda.stream_create(device).unwrap());
    let native = cuda.stream_native(stream).unwrap();
    let markers_of_waits = || {
        driver.take_calls();
        for _ in 0..5 {
            let early = cuda.stream_synchronize(stream, 1_000_000).unwrap_err();
            assert_eq!(early.status(), Status::TIMEOUT);
        }
        driver.take_calls().get("cuEventRecord").copied()
    };
    // A wait of the program, of which the plugin knows nothing.
    driver.enter_primary_context(0);
    let flag = driver.allocate_pinned(4);
    Driver::write_pinned(flag, 0);
    driver.wait_value(native, flag);
    upload(&cuda, device(memory.word, 0), &bytes, stream).unwrap();
    assert_eq!(markers_of_waits(), Some(1));
    Driver::write_pinned(flag, 1);
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    // A wait that the plugin submitted.
    let host_event = cuda.event_create_host(0).unwrap();
    cuda.stream_wait_event(held, host_event).unwrap();
    upload(&cuda, device(memory.word, 0), &bytes, stream).unwrap();
    assert_eq!(markers_of_waits(), None);
    cuda.event_complete(host_event, Status::OK).unwrap();
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    for stream in [stream, held] {
        cuda.stream_destroy(stream).unwrap();
    }
    cuda.event_destroy(host_event).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    driver.free_pinned(flag);
    driver.leave_primary_context(0);
}
