//! Threads that wait without a limit inside a plugin, for work that a host event holds up: they are told
//! when the plugin is not called any more, since nobody can complete the event then.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crossdock::{CostCache, Device, Error, Event, Runtime, Stream, Tensor, WaitMethod};
use crossdock_e2e::lending::{ALL, LIMIT, MOMENT, filled, held, status};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{asynchronous, plugin_file, report, with_environment, with_faults};
use crossdock_sdk::abi::Status;

/// A stream that a host event holds up, what hangs on it, and who can let it go on.
struct Held {
    device: Device,
    stream: Stream,
    end: Event,
    tensor: Tensor,
    /// Nothing is pending on it.
    other: Tensor,
    host_event: Event,
}

impl Held {
    fn new(device: &Device) -> Self {
        let (tensor, other) = (filled(device, 1), filled(device, 1));
        let (stream, host_event) = held(device);
        tensor.fill(&[2], Some(&stream)).unwrap();
        Self {
            device: device.clone(),
            end: stream.record().unwrap(),
            stream,
            tensor,
            other,
            host_event,
        }
    }
}

/// A wait without a limit.
type Wait = fn(&Held) -> Result<(), Error>;

/// Every wait that a program can make without a limit.
const WAITS: [(&str, Wait); 7] = [
    ("a stream", |held| held.stream.synchronize(None)),
    ("an event", |held| held.end.synchronize(None)),
    ("a host event", |held| held.host_event.synchronize(None)),
    ("a device", |held| held.device.synchronize(None)),
    ("a tensor", |held| held.tensor.synchronize(None)),
    ("a read", |held| held.tensor.read().map(drop)),
    ("a write", |held| held.tensor.fill(&[3], None)),
];

/// Begins a wait on a thread of its own, and says how it ended.
fn begin(held: &Arc<Held>, wait: Wait) -> Receiver<Option<Status>> {
    let (done, ended) = channel();
    let held = Arc::clone(held);
    std::thread::spawn(move || {
        // The test may have failed already.
        let _sent = done.send(status(&wait(&held)));
    });
    ended
}

/// Lets threads wait for a device none of whose completions of events comes through, and looks what
/// they are told.
fn waiters_are_told(device: &Device) {
    let held = Arc::new(Held::new(device));
    let waiting: Vec<_> = WAITS
        .iter()
        .map(|(what, wait)| (what, begin(&held, *wait)))
        .collect();
    for (what, ended) in &waiting {
        let early = ended.recv_timeout(MOMENT);
        assert_eq!(early, Err(RecvTimeoutError::Timeout), "{what} is held up");
    }
    assert_eq!(
        status(&held.host_event.complete(Status::OK)),
        Some(Status::PANIC)
    );
    for (what, ended) in &waiting {
        let told = ended.recv_timeout(LIMIT.unwrap_or_default());
        assert_eq!(told, Ok(Some(Status::PANIC)), "{what}");
    }
}

/// The first device of a plugin's file.
fn device_of(file: std::path::PathBuf) -> Option<(Runtime, Device)> {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let mut devices = runtime.devices().into_iter();
    let device = devices.find(|device| !Arc::ptr_eq(device.plugin(), cpu.plugin()))?;
    Some((runtime, device))
}

#[test]
fn who_waits_for_the_cpu_is_told_that_a_hook_panicked() {
    let name = "who_waits_for_the_cpu_is_told_that_a_hook_panicked";
    if with_faults(name, "cpu.event_complete:*=PANIC") {
        let (_runtime, device) = crossdock_e2e::lending::one_cpu();
        waiters_are_told(&device);
    }
}

#[test]
fn who_waits_for_a_simulated_device_is_told_that_a_hook_panicked() {
    let name = "who_waits_for_a_simulated_device_is_told_that_a_hook_panicked";
    if with_faults(name, "asynchronous.event_complete:*=PANIC") {
        let (_runtime, device) = device_of(asynchronous()).unwrap();
        waiters_are_told(&device);
    }
}

#[test]
fn who_waits_for_opencl_is_told_that_a_hook_panicked() {
    let name = "who_waits_for_opencl_is_told_that_a_hook_panicked";
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    if with_faults(name, "opencl.event_complete:*=PANIC") {
        let Some((_runtime, device)) = device_of(file) else {
            return report("skipped: there is no OpenCL device");
        };
        waiters_are_told(&device);
    }
}

#[test]
fn who_copies_through_a_queue_that_stands_still_goes_on_by_a_completion_after_a_panic() {
    let name = "who_copies_through_a_queue_that_stands_still_goes_on_by_a_completion_after_a_panic";
    let faults = ("CROSSDOCK_FAULT", "asynchronous.event_complete:1=PANIC");
    // All streams share one hardware queue, also that of a copy which ends before it returns.
    let queues = ("CROSSDOCK_ASYNCHRONOUS", "policy=threads;queues=1");
    if with_environment(name, &[faults, queues]) {
        let rig = Simulated::new();
        let held = Arc::new(Held::new(&rig.device("vpi:0")));
        let before = rig.control.pending();
        let copied = begin(&held, |held| held.other.write(&[9; ALL]));
        // It is inside of its hook, which is not called behind a panic.
        rig.wait_for_pending(before + 1);
        let completed = held.host_event.complete(Status::OK);
        assert_eq!(status(&completed), Some(Status::PANIC));
        assert_eq!(copied.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        held.host_event.complete(Status::OK).unwrap();
        assert_eq!(copied.recv_timeout(LIMIT.unwrap_or_default()), Ok(None));
    }
}

#[test]
fn a_stream_waits_for_failed_work_though_no_stream_stood_in_line_for_its_end() {
    let name = "a_stream_waits_for_failed_work_though_no_stream_stood_in_line_for_its_end";
    // The first wait is that of the work; then no stream of ours comes behind it.
    let faults = (
        "CROSSDOCK_FAULT",
        "asynchronous.stream_wait_event:2=OOM_HOST",
    );
    let queues = ("CROSSDOCK_ASYNCHRONOUS", "policy=threads;queues=1");
    if with_environment(name, &[faults, queues]) {
        let rig = Simulated::new();
        let (vpi, cpu) = (rig.device("vpi:0"), rig.device("cpu:0"));
        let (failing, host_event) = held(&vpi);
        let waiting = Stream::new(&cpu).unwrap();
        let how = waiting.wait(&failing.record().unwrap()).unwrap();
        assert_eq!(how, WaitMethod::HostThread);
        // In the one queue this stands in front of any stream that would be put in line now.
        let last = Stream::new(&vpi).unwrap();
        last.wait(&waiting.record().unwrap()).unwrap();
        host_event.complete(Status::VENDOR).unwrap();
        for stream in [waiting, last] {
            assert_eq!(status(&stream.synchronize(LIMIT)), Some(Status::VENDOR));
        }
    }
}

#[test]
fn who_waits_for_failed_work_is_told_of_it_while_another_stream_is_held_up() {
    let name = "who_waits_for_failed_work_is_told_of_it_while_another_stream_is_held_up";
    if with_environment(
        name,
        &[("CROSSDOCK_ASYNCHRONOUS", "policy=threads;queues=1")],
    ) {
        let rig = Simulated::new();
        let vpi = rig.device("vpi:0");
        let tensor = filled(&vpi, 1);
        let (failing, host_event) = held(&vpi);
        tensor.fill(&[2], Some(&failing)).unwrap();
        host_event.complete(Status::VENDOR).unwrap();
        assert_eq!(status(&failing.synchronize(LIMIT)), Some(Status::VENDOR));
        let (_other, host_event) = held(&vpi);
        for told in [tensor.synchronize(LIMIT), tensor.export().map(drop)] {
            assert_eq!(status(&told), Some(Status::VENDOR));
        }
        host_event.complete(Status::OK).unwrap();
    }
}

/// Longer than several slices of a wait.
const LONG: Duration = Duration::from_millis(2500);

/// A wait that takes long ends like any other, with what the work says.
fn a_long_wait_ends_well(device: &Device) {
    for (outcome, told) in [
        (Status::OK, None),
        (Status::DEVICE_LOST, Some(Status::DEVICE_LOST)),
    ] {
        let held = Arc::new(Held::new(device));
        // Of a failure each stream is told once, so one thread asks here.
        let stream = begin(&held, |held| held.stream.synchronize(None));
        assert_eq!(stream.recv_timeout(LONG), Err(RecvTimeoutError::Timeout));
        held.host_event.complete(outcome).unwrap();
        assert_eq!(stream.recv_timeout(LIMIT.unwrap_or_default()), Ok(told));
        assert_eq!(status(&held.end.synchronize(None)), told);
        held.stream.synchronize(LIMIT).unwrap();
    }
}

#[test]
fn a_long_wait_for_opencl_is_told_how_the_work_ended() {
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    let Some((_runtime, device)) = device_of(file) else {
        return report("skipped: there is no OpenCL device");
    };
    a_long_wait_ends_well(&device);
}

#[test]
fn a_long_wait_for_a_simulated_device_is_told_how_the_work_ended() {
    let (_runtime, device) = device_of(asynchronous()).unwrap();
    a_long_wait_ends_well(&device);
}
