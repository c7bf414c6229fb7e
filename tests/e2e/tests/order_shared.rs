//! Work whose order or end is asked for where several streams, threads or views meet.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::Barrier;
use std::time::Duration;

use crossdock::{CostCache, Device, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_e2e::lending::{held, writable_as};
use crossdock_e2e::{plugin_file, report};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
const MOMENT: Option<Duration> = Some(Duration::from_millis(20));
const BYTES: i64 = 4 << 20;

fn runtime() -> Option<Runtime> {
    let Some(file) = plugin_file("cpu") else {
        report("skipped: `cpu` was not built as a file in this run");
        return None;
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    Some(builder.plugin(file).open().unwrap())
}

fn device(runtime: &Runtime, id: &str) -> Device {
    runtime.device(id.parse().unwrap()).unwrap()
}

fn bytes_of(device: &Device, count: i64, byte: u8) -> Tensor {
    let layout = Layout::compact(Dtype::UINT8, &[count]).unwrap();
    let tensor = Tensor::empty(device, &layout).unwrap();
    tensor.fill(&[byte], None).unwrap();
    tensor
}

fn part(tensor: &Tensor, start: i64, len: i64) -> Tensor {
    let step = 1;
    tensor.slice(&[AxisSlice { start, step, len }]).unwrap()
}

#[test]
fn two_threads_work_on_one_stream_of_another_plugin_is_one_after_the_other() {
    let Some(runtime) = runtime() else {
        return;
    };
    let (here, other) = (device(&runtime, "cpu:0"), device(&runtime, "cpu:1"));
    let (source, copy) = (bytes_of(&here, BYTES, 7), bytes_of(&here, BYTES, 0));
    for round in 0..200 {
        source.fill(&[7], None).unwrap();
        let stream = Stream::new(&other).unwrap();
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                copy.copy_from(&source, Some(&stream)).unwrap();
            });
            scope.spawn(|| {
                together.wait();
                source.fill(&[9], Some(&stream)).unwrap();
            });
        });
        stream.synchronize(LIMIT).unwrap();
        let read = copy.read().unwrap();
        let first = read.first();
        let is_whole = read.iter().all(|byte| Some(byte) == first);
        assert!(is_whole, "round {round}: copied while it was filled");
    }
}

#[test]
fn a_device_waits_for_all_work_that_it_does_for_streams_of_another_plugin() {
    let Some(runtime) = runtime() else {
        return;
    };
    let (here, other) = (device(&runtime, "cpu:0"), device(&runtime, "cpu:1"));
    let source = bytes_of(&here, 64, 7);
    let begin = || {
        let (stream, host_event) = held(&other);
        let copy = bytes_of(&here, 64, 0);
        copy.copy_from(&source, Some(&stream)).unwrap();
        (stream, host_event, copy)
    };
    // More than the streams of its own that it asks for an idle one, and more than it keeps.
    for count in [6, 18] {
        let mut all: Vec<_> = (0..count).map(|_| begin()).collect();
        let last = all.pop().unwrap();
        for (stream, host_event, _copy) in &all {
            host_event.complete(Status::OK).unwrap();
            stream.synchronize(LIMIT).unwrap();
        }
        let waited = here.synchronize(MOMENT);
        let is_pending = last
            .2
            .ready()
            .unwrap()
            .is_some_and(|event| !event.is_done().unwrap());
        last.1.complete(Status::OK).unwrap();
        last.0.synchronize(LIMIT).unwrap();
        assert!(is_pending);
        assert_eq!(
            waited.map_err(|error| error.status()),
            Err(Some(Status::TIMEOUT)),
            "its copy is yet to come"
        );
    }
}

#[test]
fn a_tensor_is_ready_when_all_that_writes_it_is_over() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let ((first, first_host_event), (second, second_host_event)) = (held(&cpu), held(&cpu));
    let tensor = bytes_of(&cpu, 64, 1);
    // Work of others on both halves at once.
    for stream in [&first, &second] {
        tensor.wait_to_write(stream).unwrap();
    }
    for stream in [&first, &second] {
        tensor.written_on(stream).unwrap();
    }
    let ready = tensor.ready().unwrap().unwrap();
    second_host_event.complete(Status::OK).unwrap();
    let was_ready = ready.synchronize(MOMENT).is_ok();
    first_host_event.complete(Status::OK).unwrap();
    assert!(!was_ready, "the first half is written still");
}

#[test]
fn a_tensor_that_one_of_two_failed_to_write_is_never_ready() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    for was_told in [false, true] {
        let ((first, first_host_event), (second, second_host_event)) = (held(&cpu), held(&cpu));
        let tensor = bytes_of(&cpu, 64, 1);
        tensor.written_on(&first).unwrap();
        tensor.written_on(&second).unwrap();
        let fail = || first_host_event.complete(Status::VENDOR).unwrap();
        if was_told {
            fail();
            assert!(first.synchronize(LIMIT).is_err());
        }
        let ready = tensor.ready().unwrap().unwrap();
        if !was_told {
            fail();
        }
        second_host_event.complete(Status::OK).unwrap();
        let told = ready.synchronize(LIMIT).map_err(|error| error.status());
        assert_eq!(told, Err(Some(Status::VENDOR)));
    }
}

#[test]
fn a_write_of_a_part_does_not_hide_that_the_rest_failed() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let (stream, host_event) = held(&cpu);
    let tensor = bytes_of(&cpu, 64, 1);
    tensor.fill(&[2], Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(stream.synchronize(LIMIT).is_err());
    assert!(tensor.read().is_err());
    part(&tensor, 0, 8).fill(&[3], Some(&stream)).unwrap();
    stream.synchronize(LIMIT).unwrap();
    assert!(part(&tensor, 8, 56).read().is_err(), "nobody wrote it");
}

#[test]
fn a_write_of_a_part_without_a_stream_does_not_hide_that_the_rest_failed() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let tensor = bytes_of(&cpu, 64, 1);
    fail_to_fill(&tensor);
    part(&tensor, 0, 8).write(&[3; 8]).unwrap();
    assert!(part(&tensor, 8, 56).read().is_err(), "nobody wrote it");
    tensor.write(&[4; 64]).unwrap();
    assert_eq!(tensor.read().unwrap(), [4; 64]);
}

#[test]
fn a_write_of_a_part_does_not_hide_that_a_copy_inside_the_memory_failed() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let (stream, host_event) = held(&cpu);
    let tensor = bytes_of(&cpu, 64, 1);
    let [from, to, third] = [0, 16, 32].map(|start| part(&tensor, start, 16));
    to.copy_from(&from, Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(stream.synchronize(LIMIT).is_err());
    third.write(&[3; 16]).unwrap();
    assert!(to.read().is_err(), "nobody wrote it");
    tensor.write(&[4; 64]).unwrap();
    assert_eq!(tensor.read().unwrap(), [4; 64]);
}

#[test]
fn a_write_of_all_but_the_last_bits_does_not_hide_that_these_failed() {
    let Some(runtime) = runtime() else {
        return;
    };
    let (cpu, other) = (device(&runtime, "cpu:0"), device(&runtime, "cpu:1"));
    let ways: [fn(&Tensor, &Tensor); 4] = [
        |few, _| few.write(&[0x55, 0x05]).unwrap(),
        |few, _| few.fill(&[0x55], None).unwrap(),
        |few, _| few.copy_from(&int4(few.device(), 3), None).unwrap(),
        |_, alias| alias.write(&[0x55, 0x05]).unwrap(),
    ];
    for write in ways {
        let four = int4(&cpu, 4);
        let few = part(&four, 0, 3);
        // It waits for the content, so it is made before that fails.
        let (alias, _) = few.to(&other, RouteChoice::Only(RouteKind::Alias)).unwrap();
        fail_to_fill(&four);
        write(&few, &alias);
        assert!(four.read().is_err(), "the last element was not written");
        four.write(&[0x66; 2]).unwrap();
        assert_eq!(four.read().unwrap(), [0x66; 2]);
    }
}

#[test]
fn a_write_of_all_elements_clears_the_failure_though_bits_are_left_behind_the_last() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let stream = Stream::new(&cpu).unwrap();
    for on in [None, Some(&stream)] {
        let ways: [fn(&Tensor, Option<&Stream>); 3] = [
            |three, _| three.write(&[0x55, 0x05]).unwrap(),
            |three, on| three.fill(&[0x55], on).unwrap(),
            |three, on| three.copy_from(&int4(three.device(), 3), on).unwrap(),
        ];
        for (write, first) in ways.into_iter().zip([0x55, 0x55, 0x11]) {
            let three = int4(&cpu, 3);
            fail_to_fill(&three);
            write(&three, on);
            let read = three.read().unwrap();
            assert!(
                read[0] == first && read[1] & 0xf == first & 0xf,
                "{read:x?}"
            );
        }
    }
}

fn int4(device: &Device, count: i64) -> Tensor {
    let layout = Layout::compact("int4".parse().unwrap(), &[count]).unwrap();
    Tensor::from_bytes(device, &layout, &[0x11; 2]).unwrap()
}

/// Lets work fail that was to write the tensor.
fn fail_to_fill(tensor: &Tensor) {
    let (stream, host_event) = held(tensor.device());
    tensor.fill(&[0x77], Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(stream.synchronize(LIMIT).is_err());
    assert!(tensor.read().is_err());
}

#[test]
fn naming_work_on_a_part_does_not_hide_that_another_part_failed() {
    let Some(runtime) = runtime() else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let (stream, host_event) = held(&cpu);
    let tensor = bytes_of(&cpu, 64, 1);
    part(&tensor, 0, 8).fill(&[2], Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(stream.synchronize(LIMIT).is_err());
    part(&tensor, 8, 8).written_on(&stream).unwrap();
    assert!(part(&tensor, 0, 8).read().is_err(), "nobody wrote it");
}

#[test]
fn naming_work_on_a_part_that_is_there_twice_does_not_hide_that_the_other_part_failed() {
    let Some(runtime) = runtime() else {
        return;
    };
    let (stream, host_event) = held(&device(&runtime, "cpu:0"));
    let twice = Layout::strided(Dtype::UINT8, &[2, 2, 64], &[0, 64, 1]).unwrap();
    let (tensor, _) = writable_as(&runtime, twice);
    // As many bytes as the memory has, and half of these twice.
    let all = |len| AxisSlice {
        start: 0,
        step: 1,
        len,
    };
    let half = |start| {
        let half = AxisSlice {
            start,
            step: 1,
            len: 1,
        };
        tensor.slice(&[all(2), half, all(64)]).unwrap()
    };
    half(0).written_on(&stream).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(stream.synchronize(LIMIT).is_err());
    half(1).written_on(&stream).unwrap();
    assert!(half(0).read().is_err(), "nobody wrote it");
}

#[test]
fn memory_that_waits_for_one_stream_needs_no_thread_for_each() {
    let Some(runtime) = runtime() else {
        return;
    };
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let cpu = device(&runtime, "cpu:0");
    let (stream, host_event) = held(&cpu);
    let before = threads();
    for _ in 0..500 {
        let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
        let lent = Box::new(vec![7; 64]);
        let lent = Tensor::from_host_memory(&runtime, lent, 0, &layout).unwrap();
        let direct = RouteChoice::Only(RouteKind::Direct);
        drop(lent.to_on(&cpu, direct, &stream).unwrap());
    }
    let more = threads().saturating_sub(before);
    host_event.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert!(more < 100, "{more} threads");
}

#[test]
fn work_of_others_that_writes_a_read_only_tensor_is_refused_as_every_write_is() {
    let Some(runtime) = runtime() else {
        return;
    };
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let lent = Box::new(vec![7; 64]);
    let tensor = Tensor::from_host_memory(&runtime, lent, 0, &layout).unwrap();
    let stream = Stream::new(&device(&runtime, "cpu:0")).unwrap();
    let refused = [
        tensor.written_on(&stream).unwrap_err(),
        tensor.fill(&[1], Some(&stream)).unwrap_err(),
    ];
    for error in &refused {
        assert!(matches!(error, crossdock::Error::Misuse { .. }), "{error}");
    }
    assert_eq!(refused[0].why(), refused[1].why());
    // Its producer may still write it, and readers are told of.
    tensor.ready_on(&stream).unwrap();
    tensor.used_on(&stream).unwrap();
}
