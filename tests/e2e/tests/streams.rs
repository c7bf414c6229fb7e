//! Work in order: streams and events of several plugins, chained.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::time::Duration;

use crossdock::{
    CostCache, Device, Error, Event, RouteChoice, RouteKind, Runtime, Stream, Tensor, WaitMethod,
    explain,
};
use crossdock_e2e::{asynchronous, ext_dev, plugin_file, report};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
const MOMENT: Option<Duration> = Some(Duration::from_millis(30));

/// The CPU twice (built in and as a file), OpenCL, two simulated devices, and a plugin without streams.
fn runtime(folder: &std::path::Path) -> Runtime {
    let mut builder = Runtime::builder()
        .search(false)
        .costs(CostCache::Off)
        .plugin(ext_dev(folder))
        .plugin(asynchronous());
    for name in ["cpu", "opencl"] {
        match plugin_file(name) {
            Some(file) => builder = builder.plugin(file),
            None => report(&format!(
                "skipped: the plugin `{name}` was not built in this run"
            )),
        }
    }
    builder.open().unwrap()
}

/// The devices with streams and events that the host completes.
fn with_streams(runtime: &Runtime) -> Vec<Device> {
    let devices = runtime.devices().into_iter();
    devices
        .filter(|device| Event::host(device).is_ok())
        .collect()
}

fn pairs(runtime: &Runtime) -> Vec<(Device, Device)> {
    let devices = with_streams(runtime);
    let with = |from: &Device| {
        devices
            .iter()
            .map(|to| (from.clone(), to.clone()))
            .collect::<Vec<_>>()
    };
    devices.iter().flat_map(with).collect()
}

/// The pairs between which one plugin copies by itself.
fn direct_pairs(runtime: &Runtime) -> Vec<(Device, Device)> {
    let mut pairs = pairs(runtime);
    pairs.retain(|(from, to)| {
        let direct = RouteChoice::Only(RouteKind::Direct);
        explain(&layout(1), from, to, direct).kind == RouteKind::Direct
    });
    assert!(pairs.len() >= 9, "{pairs:?}");
    pairs
}

fn numbers(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

fn layout(count: i64) -> Layout {
    Layout::compact(Dtype::UINT32, &[count]).unwrap()
}

/// A stream whose work waits until the event is completed.
fn held(device: &Device) -> (Stream, Event) {
    let (stream, host_event) = (Stream::new(device).unwrap(), Event::host(device).unwrap());
    assert_eq!(stream.wait(&host_event).unwrap(), WaitMethod::Native);
    (stream, host_event)
}

fn is_timeout(result: &Result<(), Error>) -> bool {
    matches!(result, Err(error) if error.status() == Some(Status::TIMEOUT))
}

#[test]
fn a_stream_waits_for_an_event_of_another_plugin_and_no_thread_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in pairs(&runtime(folder.path())) {
        let (first, host_event) = held(&from);
        let second = Stream::new(&to).unwrap();
        let chain = second.wait(&first.record().unwrap()).unwrap();
        let same = std::sync::Arc::ptr_eq(from.plugin(), to.plugin());
        let expected = if same {
            WaitMethod::Native
        } else {
            WaitMethod::HostEvent
        };
        assert_eq!(chain, expected, "{from} -> {to}");
        let after = second.record().unwrap();
        assert!(is_timeout(&after.synchronize(MOMENT)), "{from} -> {to}");
        assert!(!after.is_done().unwrap());
        host_event.complete(Status::OK).unwrap();
        after.synchronize(LIMIT).unwrap();
        second.synchronize(LIMIT).unwrap();
        assert!(
            after.is_done().unwrap() && second.is_idle().unwrap(),
            "{from} -> {to}"
        );
    }
}

#[test]
fn waits_in_both_directions_do_not_wait_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in pairs(&runtime(folder.path())) {
        let (first, host_event) = held(&from);
        let second = Stream::new(&to).unwrap();
        let early = first.record().unwrap();
        // Work of the first stream that comes after the event waits for the second stream.
        first.wait(&second.record().unwrap()).unwrap();
        second.wait(&early).unwrap();
        first.wait(&second.record().unwrap()).unwrap();
        host_event.complete(Status::OK).unwrap();
        first.synchronize(LIMIT).unwrap();
        second.synchronize(LIMIT).unwrap();
    }
}

#[test]
fn a_failure_reaches_the_stream_of_another_plugin() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in pairs(&runtime(folder.path())) {
        let (first, host_event) = held(&from);
        let second = Stream::new(&to).unwrap();
        second.wait(&first.record().unwrap()).unwrap();
        let after = second.record().unwrap();
        host_event.complete(Status::DEVICE_LOST).unwrap();
        let outcome = after.synchronize(LIMIT);
        assert!(
            outcome.is_err() && !is_timeout(&outcome),
            "{from} -> {to}: {outcome:?}"
        );
    }
}

#[test]
fn a_copy_on_a_stream_comes_after_what_is_on_it_and_outlives_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let bytes = numbers(100_003);
    for (from, to) in direct_pairs(&runtime) {
        for of_stream in [&from, &to] {
            let source =
                Tensor::from_bytes(&from, &layout(100_003), &vec![7; bytes.len()]).unwrap();
            let fresh = Tensor::from_bytes(&from, &layout(100_003), &bytes).unwrap();
            let (stream, host_event) = held(of_stream);
            source.copy_from(&fresh, Some(&stream)).unwrap();
            let direct = RouteChoice::Only(RouteKind::Direct);
            let (moved, route) = source.to_on(&to, direct, &stream).unwrap();
            drop((source, fresh));
            assert!(is_timeout(&moved.synchronize(MOMENT)), "{route}");
            assert!(moved.ready().unwrap().is_some());
            host_event.complete(Status::OK).unwrap();
            // A read comes after the copy, without being told.
            assert!(moved.read().unwrap() == bytes, "{route}");
            moved.synchronize(LIMIT).unwrap();
            assert!(moved.ready().unwrap().is_none());
        }
    }
}

#[test]
fn work_for_a_stream_of_another_plugin_does_not_stand_behind_the_default_stream() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for (from, to) in direct_pairs(&runtime) {
        if std::sync::Arc::ptr_eq(from.plugin(), to.plugin()) {
            continue;
        }
        let source = Tensor::from_bytes(&from, &layout(100), &numbers(100)).unwrap();
        let blocking = Stream::default_of(&from).unwrap();
        let host_event = Event::host(&from).unwrap();
        blocking.wait(&host_event).unwrap();
        let stream = Stream::new(&to).unwrap();
        let direct = RouteChoice::Only(RouteKind::Direct);
        let (moved, _) = source.to_on(&to, direct, &stream).unwrap();
        let moved = moved.read().unwrap();
        host_event.complete(Status::OK).unwrap();
        assert!(moved == numbers(100), "{from} -> {to}");
        blocking.synchronize(LIMIT).unwrap();
    }
}

#[test]
fn many_copies_for_streams_of_another_plugin_at_once_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for (from, to) in pairs(&runtime) {
        let (stream, host_event) = held(&to);
        let first = Tensor::from_bytes(&from, &layout(1000), &numbers(1000)).unwrap();
        let mut last = first;
        // More than the streams that are kept, each behind the one before.
        for _ in 0..40 {
            let next = Tensor::empty(&from, &layout(1000)).unwrap();
            next.copy_from(&last, Some(&stream)).unwrap();
            last = next;
        }
        assert!(is_timeout(&last.synchronize(MOMENT)), "{from} -> {to}");
        host_event.complete(Status::OK).unwrap();
        assert!(last.read().unwrap() == numbers(1000), "{from} -> {to}");
    }
}

#[test]
fn a_write_comes_after_the_reads_that_are_still_running() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let (before, after) = (numbers(5000), vec![1; 20_000]);
    for (from, to) in direct_pairs(&runtime) {
        let source = Tensor::from_bytes(&from, &layout(5000), &before).unwrap();
        let (reading, host_event) = held(&from);
        let direct = RouteChoice::Only(RouteKind::Direct);
        let (moved, _) = source.to_on(&to, direct, &reading).unwrap();
        let writing = Stream::new(&from).unwrap();
        let next = Tensor::from_bytes(&from, &layout(5000), &after).unwrap();
        source.copy_from(&next, Some(&writing)).unwrap();
        assert!(is_timeout(&source.synchronize(MOMENT)));
        host_event.complete(Status::OK).unwrap();
        assert!(moved.read().unwrap() == before, "{from} -> {to}");
        assert!(source.read().unwrap() == after);
    }
}

#[test]
fn a_consumer_that_may_write_comes_after_the_reads_that_are_still_running() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for (from, to) in direct_pairs(&runtime) {
        let source = Tensor::from_bytes(&from, &layout(5000), &numbers(5000)).unwrap();
        let (reading, host_event) = held(&from);
        let direct = RouteChoice::Only(RouteKind::Direct);
        let (moved, _) = source.to_on(&to, direct, &reading).unwrap();
        let (consumer, reader) = (Stream::new(&from).unwrap(), Stream::new(&from).unwrap());
        let handed_out = source.export_on(&consumer).unwrap();
        assert!(!consumer.is_idle().unwrap(), "{from} -> {to}");
        source.wait_to_read(&reader).unwrap();
        assert!(
            reader.is_idle().unwrap(),
            "{from} -> {to}: nothing wrote it"
        );
        host_event.complete(Status::OK).unwrap();
        consumer.synchronize(LIMIT).unwrap();
        drop((handed_out, moved));
    }
}

#[test]
fn a_consumer_that_cannot_write_waits_for_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let owner = Box::new(numbers(8));
    let source = Tensor::from_host_memory(&runtime, owner, 0, &layout(8)).unwrap();
    let cpu = source.device();
    let (reading, host_event) = held(cpu);
    let direct = RouteChoice::Only(RouteKind::Direct);
    let (moved, _) = source.to_on(cpu, direct, &reading).unwrap();
    let consumer = Stream::new(cpu).unwrap();
    let handed_out = source.export_on(&consumer).unwrap();
    assert!(consumer.is_idle().unwrap());
    host_event.complete(Status::OK).unwrap();
    assert_eq!(moved.read().unwrap(), numbers(8));
    drop(handed_out);
}

#[test]
fn a_read_that_failed_keeps_no_consumer_away_and_a_write_that_failed_does() {
    let folder = tempfile::tempdir().unwrap();
    for device in with_streams(&runtime(folder.path())) {
        let tensor = Tensor::from_bytes(&device, &layout(8), &numbers(8)).unwrap();
        let consumer = Stream::new(&device).unwrap();
        let (reading, host_event) = held(&device);
        tensor.used_on(&reading).unwrap();
        host_event.complete(Status::VENDOR).unwrap();
        assert!(reading.synchronize(LIMIT).is_err());
        drop(tensor.export_on(&consumer).unwrap());
        assert!(consumer.synchronize(LIMIT).is_ok(), "{device}");
        let (writing, host_event) = held(&device);
        tensor.written_on(&writing).unwrap();
        host_event.complete(Status::VENDOR).unwrap();
        assert!(writing.synchronize(LIMIT).is_err());
        let told = tensor.export_on(&consumer).map(drop);
        let told = told.and_then(|()| consumer.synchronize(LIMIT));
        assert!(told.is_err(), "{device}");
    }
}

#[test]
fn work_of_others_is_waited_for_once_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    for device in with_streams(&runtime(folder.path())) {
        let tensor = Tensor::from_bytes(&device, &layout(64), &numbers(64)).unwrap();
        let (stream, host_event) = held(&device);
        tensor.written_on(&stream).unwrap();
        let consumer = Stream::new(&device).unwrap();
        let handed_out = tensor.export_on(&consumer).unwrap();
        assert!(!consumer.is_idle().unwrap(), "the consumer's stream waits");
        drop(tensor.export_unordered().unwrap());
        host_event.complete(Status::OK).unwrap();
        consumer.synchronize(LIMIT).unwrap();
        drop(handed_out);
        drop(tensor.export().unwrap());
        assert!(tensor.ready().unwrap().is_none());
    }
}

#[test]
fn memory_is_dropped_while_work_on_it_is_pending() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in direct_pairs(&runtime(folder.path())) {
        let source = Tensor::from_bytes(&from, &layout(1 << 18), &numbers(1 << 18)).unwrap();
        let (stream, host_event) = held(&from);
        let completed = host_event.clone();
        let direct = RouteChoice::Only(RouteKind::Direct);
        let (moved, _) = source.to_on(&to, direct, &stream).unwrap();
        // Where no stream can free in order, the drop waits, so the host event is completed meanwhile.
        std::thread::scope(|scope| {
            scope.spawn(move || drop((source, moved)));
            completed.complete(Status::OK).unwrap();
        });
        stream.synchronize(LIMIT).unwrap();
    }
}

#[test]
fn a_copy_between_overlapping_views_is_as_if_the_source_was_taken_first() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let part = |start, step, len| [AxisSlice { start, step, len }];
    for device in runtime.devices() {
        let bytes = numbers(100);
        let whole = Tensor::from_bytes(&device, &layout(100), &bytes).unwrap();
        let (to, from) = (part(1, 1, 99), part(0, 1, 99));
        let target = whole.slice(&to).unwrap();
        target
            .copy_from(&whole.slice(&from).unwrap(), None)
            .unwrap();
        let shifted: Vec<u8> = [&bytes[..4], &bytes[..396]].concat();
        assert_eq!(whole.read().unwrap(), shifted, "{device}");
    }
}

#[test]
fn a_fill_repeats_one_element_also_through_a_strided_view() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for device in runtime.devices() {
        let whole = Tensor::from_bytes(&device, &layout(10), &[0; 40]).unwrap();
        let odd = [AxisSlice {
            start: 1,
            step: 2,
            len: 5,
        }];
        whole
            .slice(&odd)
            .unwrap()
            .fill(&[1, 2, 3, 4], None)
            .unwrap();
        let expected = [[0, 0, 0, 0], [1, 2, 3, 4]].concat().repeat(5);
        assert_eq!(whole.read().unwrap(), expected, "{device}");
        whole.fill(&[9; 4], None).unwrap();
        assert_eq!(whole.read().unwrap(), [9; 40], "{device}");
        let refused = whole.fill(&[9; 3], None).unwrap_err();
        assert!(refused.why().contains("32 bits"), "{}", refused.why());
    }
}

#[test]
fn a_plugin_without_streams_takes_part_by_making_the_caller_wait() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let plain = runtime.device("ext_dev:0".parse().unwrap()).unwrap();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    assert!(Stream::new(&plain).unwrap_err().is_unsupported());
    let source = Tensor::from_bytes(&plain, &layout(8), &numbers(8)).unwrap();
    let stream = Stream::new(&cpu).unwrap();
    let direct = RouteChoice::Only(RouteKind::Direct);
    let (moved, _) = source.to_on(&cpu, direct, &stream).unwrap();
    let (again, _) = source.to_on(&plain, direct, &stream).unwrap();
    for tensor in [moved, again] {
        assert_eq!(tensor.read().unwrap(), numbers(8));
    }
    plain.synchronize(LIMIT).unwrap();
    cpu.synchronize(LIMIT).unwrap();
}
