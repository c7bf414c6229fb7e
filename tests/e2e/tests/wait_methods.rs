//! A stream that waits for an event of another plugin: who waits, and what becomes of a failure.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use crossdock::{CostCache, Device, Event, RouteChoice, Runtime, Stream, WaitMethod};
use crossdock_e2e::lending::{ALL, LIMIT, filled, held, status, two_cpus};
use crossdock_e2e::{compile_plugin, root, with_faults};
use crossdock_sdk::abi::Status;

/// The CPU, and a device of a plugin in C that has streams, and neither events that the host completes
/// nor functions of the host's that it calls.
fn cpu_and_cuda() -> (Runtime, Device, Device) {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/accelerators.c");
    let file = compile_plugin(&source, folder.path(), &[]);
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let [cpu, cuda] = ["cpu:0", "cuda:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    (runtime, cpu, cuda)
}

/// The event at the end of work that ended so.
fn ended(device: &Device, how: Status) -> Event {
    let (stream, host_event) = held(device);
    let event = stream.record().unwrap();
    host_event.complete(how).unwrap();
    event
}

#[test]
fn an_explanation_says_who_waits_for_a_plugin_that_completes_nothing_and_calls_nobody() {
    let (_runtime, cpu, cuda) = cpu_and_cuda();
    let told = filled(&cpu, 7)
        .explain(&cuda, RouteChoice::Best)
        .to_string();
    let caller = format!("where a stream of `{cuda}` comes after one of `{cpu}`, the caller waits");
    let thread = format!("where a stream of `{cpu}` comes after one of `{cuda}`, a thread of");
    assert!(told.contains(&caller) && told.contains(&thread), "{told}");
}

#[test]
fn a_caller_who_waits_in_the_place_of_a_stream_is_told_how_the_work_ended() {
    let (_runtime, cpu, cuda) = cpu_and_cuda();
    let stream = Stream::new(&cuda).unwrap();
    let waited = stream.wait(&ended(&cpu, Status::OK));
    assert_eq!(waited.unwrap(), WaitMethod::Blocked);
    let waited = stream.wait(&ended(&cpu, Status::VENDOR));
    assert_eq!(status(&waited), Some(Status::VENDOR));
}

#[test]
fn a_caller_who_waits_in_the_place_of_a_stream_replaces_what_a_write_that_failed_left() {
    let (_runtime, cpu, cuda) = cpu_and_cuda();
    let (source, target) = (filled(&cuda, 9), filled(&cuda, 0));
    let (failing, host_event) = held(&cpu);
    target.written_on(&failing).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(target.synchronize(LIMIT).is_err(), "nobody knows its bytes");
    let stream = Stream::new(&cuda).unwrap();
    target.copy_from(&source, Some(&stream)).unwrap();
    assert_eq!(target.read().unwrap(), [9; ALL]);
}

#[test]
fn a_caller_who_waits_in_the_place_of_a_stream_is_told_that_what_it_reads_was_never_written() {
    let (_runtime, cpu, cuda) = cpu_and_cuda();
    let (source, target) = (filled(&cuda, 9), filled(&cuda, 0));
    let (failing, host_event) = held(&cpu);
    source.written_on(&failing).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(source.synchronize(LIMIT).is_err(), "nobody knows its bytes");
    let stream = Stream::new(&cuda).unwrap();
    let copied = target.copy_from(&source, Some(&stream));
    assert_eq!(status(&copied), Some(Status::VENDOR));
}

#[test]
fn a_caller_who_waits_in_the_place_of_a_stream_is_told_of_no_read_that_failed() {
    let (_runtime, cpu, cuda) = cpu_and_cuda();
    let tensor = filled(&cuda, 7);
    let (failing, host_event) = held(&cpu);
    tensor.used_on(&failing).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(failing.synchronize(LIMIT).is_err());
    let stream = Stream::new(&cuda).unwrap();
    tensor.wait_to_export(&stream).unwrap();
}

#[test]
fn a_stream_is_told_why_nobody_can_say_whether_the_work_is_over_that_it_waits_for() {
    let name = "a_stream_is_told_why_nobody_can_say_whether_the_work_is_over_that_it_waits_for";
    // The first wait is that of the work; then no stream of ours comes behind it.
    let faults = "cpu.stream_wait_event:2=VENDOR,cpu.stream_wait_event:3=VENDOR,\
                  cpu.event_query:1=DEVICE_LOST";
    if with_faults(name, faults) {
        let Some((_runtime, one, other)) = two_cpus() else {
            return;
        };
        let (first, host_event) = held(&one);
        let second = Stream::new(&other).unwrap();
        let waited = second.wait(&first.record().unwrap());
        assert_eq!(waited.unwrap(), WaitMethod::HostThread);
        let told = second.synchronize(LIMIT);
        assert_eq!(status(&told), Some(Status::DEVICE_LOST));
        host_event.complete(Status::OK).unwrap();
    }
}

#[test]
fn a_thread_waits_for_an_event_of_a_plugin_that_calls_nobody() {
    let (_runtime, cpu, cuda) = cpu_and_cuda();
    let event = Stream::new(&cuda).unwrap().record().unwrap();
    let stream = Stream::new(&cpu).unwrap();
    assert_eq!(stream.wait(&event).unwrap(), WaitMethod::HostThread);
    stream.synchronize(LIMIT).unwrap();
}

#[test]
fn nothing_waits_for_an_event_of_another_plugin_that_was_seen_to_have_happened() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let (first, host_event) = held(&one);
    let event = first.record().unwrap();
    let stream = Stream::new(&other).unwrap();
    assert_eq!(stream.wait(&event).unwrap(), WaitMethod::HostEvent);
    host_event.complete(Status::OK).unwrap();
    event.synchronize(LIMIT).unwrap();
    assert_eq!(stream.wait(&event).unwrap(), WaitMethod::Native);
}
