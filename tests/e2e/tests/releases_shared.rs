//! Memory that is dropped where two threads, two plugins or a fault meet: given back once, after all
//! work on it.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]
#![expect(unsafe_code, reason = "names a native object as others do")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crossdock::{
    CostCache, Device, Event, MemoryOwner, RouteChoice, RouteKind, Runtime, Stream, Tensor,
};
use crossdock_e2e::lending::{held, is_late, lent_with, status};
use crossdock_e2e::{plugin_file, report, with_faults};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{DataWord, Dtype, Flags, Layout, TensorView};

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
const MOMENT: Duration = Duration::from_millis(20);
const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);
const BYTES: usize = 1 << 16;

/// The CPU, and the plugin of this file; `None` where this run did not build it.
fn runtime_with(file: &str) -> Option<Runtime> {
    let Some(file) = plugin_file(file) else {
        report(&format!("skipped: `{file}` was not built in this run"));
        return None;
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    Some(builder.plugin(file).open().unwrap())
}

fn device(runtime: &Runtime, id: &str) -> Device {
    runtime.device(id.parse().unwrap()).unwrap()
}

fn layout() -> Layout {
    Layout::compact(Dtype::UINT8, &[65_536]).unwrap()
}

fn filled(device: &Device, byte: u8) -> Tensor {
    Tensor::from_bytes(device, &layout(), &[byte; BYTES]).unwrap()
}

#[test]
fn memory_that_a_stream_was_told_to_free_is_not_freed_again() {
    let name = "memory_that_a_stream_was_told_to_free_is_not_freed_again";
    if !with_faults(name, "cpu.free_async:1=VENDOR") {
        return;
    }
    let Some(runtime) = runtime_with("cpu") else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    // Who gives things back is busy, so what was freed already can be somebody else's by then.
    let (go, taken_after) = channel();
    let (source, _is_back) = lent_with(&runtime, BYTES, Some(taken_after));
    let (stream, host_event) = held(&cpu);
    let copy = source.to_on(&cpu, DIRECT, &stream).unwrap();
    drop(source);
    host_event.complete(Status::OK).unwrap();
    stream.synchronize(LIMIT).unwrap();

    let (stream, host_event) = held(&cpu);
    let dropped = filled(&cpu, 1);
    dropped.fill(&[2], Some(&stream)).unwrap();
    drop(dropped);
    host_event.complete(Status::OK).unwrap();
    stream.synchronize(LIMIT).unwrap();
    let next = filled(&cpu, 9);
    go.send(()).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    let others = filled(&cpu, 5);
    assert_ne!(next.address(), others.address(), "two tensors in one place");
    assert_eq!(next.read().unwrap(), [9; BYTES]);
    drop(copy);
}

#[test]
fn memory_stays_until_both_threads_work_on_one_stream_is_over() {
    let Some(runtime) = runtime_with("cpu") else {
        return;
    };
    let (here, other) = (device(&runtime, "cpu:0"), device(&runtime, "cpu:1"));
    for round in 0..300 {
        // The work is this plugin's and the stream is the other's; one of both copies is held.
        let stream = Stream::new(&other).unwrap();
        let (source, is_back) = lent_with(&runtime, BYTES, None);
        let (holding, host_event) = held(&here);
        let (slow, fast) = (filled(&here, 0), filled(&here, 0));
        slow.fill(&[1], Some(&holding)).unwrap();
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            for copy in [&slow, &fast] {
                scope.spawn(|| {
                    together.wait();
                    copy.copy_from(&source, Some(&stream)).unwrap();
                });
            }
        });
        drop(source);
        let _late = runtime.wait_for_releases(Some(Duration::from_millis(3)));
        let was_early = is_back.load(Ordering::SeqCst);
        host_event.complete(Status::OK).unwrap();
        stream.synchronize(LIMIT).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(!was_early, "round {round}: given back under a copy");
        assert_eq!(slow.read().unwrap(), [7; BYTES], "round {round}");
    }
}

/// Whether OpenCL's work is over is unknown while these answers last: a stream that waits for it is queried once and
/// synchronized twice, and then its event is queried, for the second time.
const NO_ANSWER: &str = "opencl.stream_host_call:*=VENDOR,opencl.stream_query:*=VENDOR,\
                         opencl.stream_synchronize:1=VENDOR,opencl.stream_synchronize:2=VENDOR,\
                         opencl.event_query:2=VENDOR";

/// A copy by OpenCL of `source` that is held, on a stream of the CPU that was told to go on although
/// nobody knows whether the copy is over.
fn copied_on_stream_that_went_on(runtime: &Runtime, source: &Tensor) -> (Stream, Event, Tensor) {
    let target = filled(&device(runtime, "opencl:0"), 1);
    let (holding, host_event) = held(target.device());
    target.fill(&[2], Some(&holding)).unwrap();
    let stream = Stream::new(source.device()).unwrap();
    target.copy_from(source, Some(&stream)).unwrap();
    assert_eq!(status(&stream.synchronize(LIMIT)), Some(Status::VENDOR));
    (stream, host_event, target)
}

#[test]
fn a_write_comes_after_a_copy_that_its_stream_went_past_without_knowing() {
    let name = "a_write_comes_after_a_copy_that_its_stream_went_past_without_knowing";
    if !with_faults(name, NO_ANSWER) {
        return;
    }
    let Some(runtime) = runtime_with("opencl") else {
        return;
    };
    let source = filled(&device(&runtime, "cpu:0"), 7);
    let (stream, host_event, target) = copied_on_stream_that_went_on(&runtime, &source);
    source.fill(&[9], Some(&stream)).unwrap();
    let _over = stream.synchronize(Some(MOMENT));
    host_event.complete(Status::OK).unwrap();
    assert_eq!(target.read().unwrap(), [7; BYTES]);
}

#[test]
fn memory_stays_until_a_copy_is_over_that_its_stream_went_past_without_knowing() {
    let name = "memory_stays_until_a_copy_is_over_that_its_stream_went_past_without_knowing";
    if !with_faults(name, NO_ANSWER) {
        return;
    }
    let Some(runtime) = runtime_with("opencl") else {
        return;
    };
    let cpu = device(&runtime, "cpu:0");
    let source = filled(&cpu, 7);
    let (stream, host_event, target) = copied_on_stream_that_went_on(&runtime, &source);
    drop(source);
    let _over = stream.synchronize(Some(MOMENT));
    let others = filled(&cpu, 9);
    host_event.complete(Status::OK).unwrap();
    assert_eq!(target.read().unwrap(), [7; BYTES]);
    drop(others);
}

#[test]
fn waiting_for_releases_covers_what_an_alias_held() {
    let Some(runtime) = runtime_with("opencl") else {
        return;
    };
    let opencl = device(&runtime, "opencl:0");
    for round in 0..100 {
        let (source, is_back) = lent_with(&runtime, BYTES, None);
        let alias = RouteChoice::Only(RouteKind::Alias);
        let (alias, _route) = source.to(&opencl, alias).unwrap();
        drop(source);
        let (stream, host_event) = held(&opencl);
        let copy = filled(&opencl, 0);
        copy.copy_from(&alias, Some(&stream)).unwrap();
        drop(alias);
        host_event.complete(Status::VENDOR).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(is_back.load(Ordering::SeqCst), "round {round}");
    }
}

/// Says when it is dropped.
struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn waiting_for_releases_covers_what_ends_with_another_threads_call() {
    let Some(runtime) = runtime_with("opencl") else {
        return;
    };
    let opencl = device(&runtime, "opencl:0");
    let tensor = filled(&opencl, 1);
    let data = DataWord::from_addr(usize::try_from(tensor.address().word).unwrap());
    let (stream, host_event) = held(&opencl);
    tensor.fill(&[2], Some(&stream)).unwrap();
    let is_back = Arc::<AtomicBool>::default();
    let view = TensorView::new(layout(), data, 0, opencl.id(), Flags::NONE).unwrap();
    let owner = MemoryOwner::new(Told(Arc::clone(&is_back)));
    // SAFETY: the object is that of `tensor`, which outlives this.
    let named = unsafe { Tensor::adopt_native(&runtime, view, owner) }.unwrap();
    let reader = {
        let tensor = tensor.clone();
        std::thread::spawn(move || tensor.read().unwrap())
    };
    // The other thread waits for the fill by then, inside of its call.
    assert!((0..6).all(|_| is_late(&stream)));
    drop(named);
    let waited = runtime.wait_for_releases(Some(MOMENT));
    let was_back = is_back.load(Ordering::SeqCst);
    host_event.complete(Status::OK).unwrap();
    assert_eq!(reader.join().unwrap(), [2; BYTES]);
    runtime.wait_for_releases(LIMIT).unwrap();
    assert!(is_back.load(Ordering::SeqCst));
    assert!(waited.is_err() || was_back, "its deleter has not run");
}

#[test]
fn waiting_for_releases_covers_plugins_that_were_retired_here() {
    let (Some(runtime), Some(other)) = (runtime_with("cpu"), runtime_with("cpu")) else {
        return;
    };
    // Read-only and shared: the plugin has no other memory that a stream does not free itself.
    let of_file = device(&runtime, "cpu:1");
    let (source, _is_back) = lent_with(&runtime, BYTES, None);
    let adopted = source.to(&of_file, RouteChoice::Only(RouteKind::Alias));
    let (adopted, _route) = adopted.unwrap();
    let (stream, host_event) = held(&of_file);
    let copy = filled(&of_file, 0);
    copy.copy_from(&adopted, Some(&stream)).unwrap();
    drop(adopted);
    assert!(runtime.wait_for_releases(Some(MOMENT)).is_err());
    runtime.retire(of_file.plugin()).unwrap();
    let waited = runtime.wait_for_releases(Some(MOMENT));
    host_event.complete(Status::OK).unwrap();
    assert_eq!(
        waited.map_err(|error| error.status()),
        Err(Some(Status::TIMEOUT)),
        "it is still copied"
    );
    drop(other);
}
