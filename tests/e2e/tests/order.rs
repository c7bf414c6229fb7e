//! Everything that takes a stream, behind work on that stream that has not happened yet: whatever the
//! route, the layout and the hooks that a plugin has, it comes after that work.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use crossdock::{CostCache, Device, Event, Route, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_e2e::modelled_memory::{ModelledMemory, content, trimmed};
use crossdock_e2e::{ext_dev, plugin_file, report, traced, with_environment};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

/// The CPU, OpenCL, and a plugin that has neither streams, nor fills, nor strided copies.
fn runtime(folder: &Path) -> Runtime {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let mut builder = builder.plugin(ext_dev(folder));
    match plugin_file("opencl") {
        Some(file) => builder = builder.plugin(file),
        None => report("skipped: the OpenCL plugin was not built in this run"),
    }
    builder.open().unwrap()
}

fn with_streams(runtime: &Runtime) -> Vec<Device> {
    let devices = runtime.devices().into_iter();
    devices
        .filter(|device| Event::host(device).is_ok())
        .collect()
}

/// One layout of each kind: dense or not, elements with a fill or without, packed or not.
fn layouts() -> Vec<Layout> {
    let of = |name: &str, shape: &[i64], strides: &[i64]| {
        let dtype: Dtype = name.parse().unwrap();
        Layout::strided(dtype, shape, strides).unwrap()
    };
    vec![
        of("int32", &[40], &[1]),
        of("int8x3", &[40], &[1]),
        of("int4", &[40], &[1]),
        of("int4", &[41], &[1]),
        of("float6_e3m2fn", &[5], &[1]),
        of("int32", &[3, 7], &[-16, 2]),
        of("int8x3", &[3, 3], &[2, 3]),
        of("int4", &[2, 5], &[-16, 3]),
    ]
}

const MEMORY_BYTES: usize = 1024;
const FIRST: u64 = 512;

/// Lets a stream go on when it is dropped, also by a failed assertion.
struct Opened(Event);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.complete(Status::OK).unwrap();
    }
}

/// Calls `work` with a stream of `device` on which nothing goes on yet, and `meanwhile` once that
/// returned or is taken to wait; then the stream goes on. How long that takes decides nothing but
/// how much of a wrong order is seen.
fn behind(device: &Device, work: impl FnOnce(&Stream, &Event), meanwhile: impl FnOnce() + Send) {
    let (stream, host_event) = (Stream::new(device).unwrap(), Event::host(device).unwrap());
    stream.wait(&host_event).unwrap();
    let (returned, seen) = channel::<()>();
    let opened = Opened(host_event.clone());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _goes_on_whatever_happens = opened;
            let _returned = seen.recv_timeout(Duration::from_millis(40));
            meanwhile();
        });
        work(&stream, &host_event);
        drop(returned);
    });
    stream.synchronize(LIMIT).unwrap();
}

#[test]
fn a_move_has_what_its_source_holds_when_the_stream_comes_there() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let kinds = [RouteKind::Alias, RouteKind::Direct, RouteKind::Staged];
    let devices = runtime.devices();
    for of_stream in with_streams(&runtime) {
        for (from, to) in devices
            .iter()
            .flat_map(|from| devices.iter().map(move |to| (from, to)))
        {
            for (layout, kind) in layouts()
                .iter()
                .flat_map(|layout| kinds.map(|kind| (layout, kind)))
            {
                let memory = ModelledMemory::new(&runtime, from, MEMORY_BYTES);
                let (source, writer) = (memory.view(layout, FIRST), memory.view(layout, FIRST));
                let bytes = content(layout, 77);
                let what = format!("{kind} {from} -> {to} on {of_stream}: {layout:?}");
                let mut moved = None;
                let mut was_early = false;
                behind(
                    &of_stream,
                    |stream, host_event| {
                        let choice = RouteChoice::Only(kind);
                        moved = source.to_on(to, choice, stream).ok();
                        let waits =
                            |route: &Route| route.to_string().contains("the caller waits for");
                        let cannot_follow = match (kind, &moved) {
                            (RouteKind::Staged, Some((_, route))) => waits(route),
                            _ => kind == RouteKind::Alias && from != to,
                        };
                        was_early = cannot_follow && !host_event.is_done().unwrap();
                    },
                    || writer.write(&bytes).unwrap(),
                );
                if let Some((moved, _)) = moved {
                    assert!(!was_early, "{what}");
                    let read = trimmed(layout, moved.read().unwrap());
                    assert_eq!(read, bytes, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_copy_into_a_tensor_reads_and_writes_when_the_stream_comes_there() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let devices = runtime.devices();
    for of_stream in with_streams(&runtime) {
        for (from, to) in devices
            .iter()
            .flat_map(|from| devices.iter().map(move |to| (from, to)))
        {
            for layout in layouts() {
                let (sources, mut memory) = (
                    ModelledMemory::new(&runtime, from, MEMORY_BYTES),
                    ModelledMemory::new(&runtime, to, MEMORY_BYTES),
                );
                let (source, writer) = (sources.view(&layout, FIRST), sources.view(&layout, FIRST));
                let (target, bytes) = (memory.view(&layout, FIRST), content(&layout, 78));
                let what = format!("{from} -> {to} on {of_stream}: {layout:?}");
                behind(
                    &of_stream,
                    |stream, _| target.copy_from(&source, Some(stream)).unwrap(),
                    || {
                        memory.check(&format!("early: {what}"));
                        writer.write(&bytes).unwrap();
                    },
                );
                let read = trimmed(&layout, target.read().unwrap());
                assert_eq!(read, bytes, "{what}");
                memory.set(&layout, FIRST, &bytes);
                memory.check(&what);
            }
        }
    }
}

#[test]
fn a_copy_between_overlapping_views_takes_its_source_when_the_stream_comes_there() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for of_stream in with_streams(&runtime) {
        for device in runtime.devices() {
            let dtype: Dtype = "int16".parse().unwrap();
            let layout = Layout::compact(dtype, &[50]).unwrap();
            let mut memory = ModelledMemory::new(&runtime, &device, MEMORY_BYTES);
            let (target, source) = (memory.view(&layout, FIRST + 2), memory.view(&layout, FIRST));
            let (writer, bytes) = (memory.view(&layout, FIRST), content(&layout, 79));
            behind(
                &of_stream,
                |stream, _| target.copy_from(&source, Some(stream)).unwrap(),
                || writer.write(&bytes).unwrap(),
            );
            assert_eq!(target.read().unwrap(), bytes, "{device} on {of_stream}");
            memory.set(&layout, FIRST, &bytes);
            memory.set(&layout, FIRST + 2, &bytes);
            memory.check("both views");
        }
    }
}

#[test]
fn a_fill_writes_when_the_stream_comes_there() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for of_stream in with_streams(&runtime) {
        for device in runtime.devices() {
            for layout in layouts() {
                let mut memory = ModelledMemory::new(&runtime, &device, MEMORY_BYTES);
                let target = memory.view(&layout, FIRST);
                let what = format!("{device} on {of_stream}: {layout:?}");
                let element =
                    vec![0xff; usize::try_from(layout.element_bits().max(8) / 8).unwrap()];
                behind(
                    &of_stream,
                    |stream, _| target.fill(&element, Some(stream)).unwrap(),
                    || memory.check(&format!("early: {what}")),
                );
                // Its user comes after the fill, without being told.
                target.synchronize(LIMIT).unwrap();
                let bytes = vec![0xff; usize::try_from(layout.bytes()).unwrap()];
                memory.set(&layout, FIRST, &bytes);
                memory.check(&what);
            }
        }
    }
}

#[test]
fn what_waits_for_a_stream_ends_with_its_failure_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let plain = runtime.device("ext_dev:0".parse().unwrap()).unwrap();
    for of_stream in with_streams(&runtime) {
        let memory = ModelledMemory::new(&runtime, &plain, MEMORY_BYTES);
        let layout = Layout::compact(Dtype::INT32, &[8]).unwrap();
        let target: Tensor = memory.view(&layout, FIRST);
        let stream = Stream::new(&of_stream).unwrap();
        let host_event = Event::host(&of_stream).unwrap();
        stream.wait(&host_event).unwrap();
        host_event.complete(Status::DEVICE_LOST).unwrap();
        assert!(target.fill(&[1; 4], Some(&stream)).is_err(), "{of_stream}");
        memory.check("nothing was written");
    }
}

/// A copy in the order of a stream is one point on it: the end of its work, which both tensors remember. A
/// stream of another plugin is waited for at one more, and waits for one.
#[test]
fn an_ordered_copy_records_one_event_on_a_stream_of_its_own_plugin() {
    // In a process of its own: a trace has the hooks that all of its tests call.
    if !with_environment(
        "an_ordered_copy_records_one_event_on_a_stream_of_its_own_plugin",
        &[],
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    for from in with_streams(&runtime) {
        for to in with_streams(&runtime) {
            let source = Tensor::from_bytes(&from, &layout, &[7; 4096]).unwrap();
            for device in [&from, &to] {
                let stream = Stream::new(device).unwrap();
                let choice = RouteChoice::Only(RouteKind::Direct);
                let ((copy, route), hooks) = traced(folder.path(), || {
                    source.to_on(&to, choice, &stream).unwrap()
                });
                let records = hooks.iter().filter(|hook| *hook == "event_record").count();
                let maker = route.steps[0].to_string();
                let is_own = maker.contains(&format!("`{}` copies", device.plugin().name()));
                assert_eq!(records, if is_own { 1 } else { 2 }, "{route}\n{hooks:?}");
                assert_eq!(copy.read().unwrap(), [7; 4096]);
            }
        }
    }
}
