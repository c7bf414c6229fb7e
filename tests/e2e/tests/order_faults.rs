//! Work whose place in order cannot be kept as asked: a hook fails on the way, or the stream is of
//! another plugin. It is waited for all the same, and its failure goes no further than it should.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossdock::{
    CostCache, Device, Error, Event, RouteChoice, RouteKind, Runtime, Stream, Tensor, counted_leaks,
};
use crossdock_e2e::lending::{
    ALL, LIMIT, MOMENT, filled, held, is_late, lent, one_cpu, status, two_cpus, writable,
};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{plugin_file, report, with_environment, with_faults};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::Layout;

const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);

#[test]
fn work_for_a_stream_of_another_plugin_comes_after_work_on_a_third_stream() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let (source, target) = (filled(&other, 7), filled(&other, 0));
    let (writing, host_event) = held(&other);
    source.written_on(&writing).unwrap();
    let stream = Stream::new(&one).unwrap();
    target.copy_from(&source, Some(&stream)).unwrap();
    assert!(is_late(&stream), "what it copies is not written yet");
    host_event.complete(Status::OK).unwrap();
    stream.synchronize(LIMIT).unwrap();
    assert_eq!(target.read().unwrap(), [7; ALL]);
}

#[test]
fn a_write_on_another_stream_clears_the_failure_of_an_earlier_write() {
    let (_runtime, device) = one_cpu();
    let (target, source) = (filled(&device, 0), filled(&device, 9));
    let (failing, host_event) = held(&device);
    target.written_on(&failing).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(failing.synchronize(LIMIT).is_err());
    assert!(target.synchronize(LIMIT).is_err(), "nobody knows its bytes");
    let stream = Stream::new(&device).unwrap();
    target.copy_from(&source, Some(&stream)).unwrap();
    assert_eq!(target.read().unwrap(), [9; ALL]);
}

#[test]
fn a_write_for_another_plugins_stream_clears_the_failure_of_an_earlier_write() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let (target, source) = (filled(&one, 0), filled(&one, 9));
    let (failing, host_event) = held(&other);
    target.written_on(&failing).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(target.synchronize(LIMIT).is_err(), "nobody knows its bytes");
    let stream = Stream::new(&one).unwrap();
    target.copy_from(&source, Some(&stream)).unwrap();
    assert_eq!(target.read().unwrap(), [9; ALL]);
}

/// A tensor that failed work on the stream was to write, of which the stream told.
fn failed_on_stream(device: &Device) -> (Tensor, Stream) {
    let tensor = filled(device, 1);
    let (stream, host_event) = held(device);
    tensor.fill(&[9], Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert_eq!(status(&stream.synchronize(LIMIT)), Some(Status::VENDOR));
    (tensor, stream)
}

#[test]
fn what_a_stream_failed_to_write_fails_at_every_use_on_it_after_it_told_of_that() {
    let (runtime, device) = one_cpu();
    let (tensor, stream) = failed_on_stream(&device);
    for _ in 0..2 {
        let copied = tensor.to_on(&device, RouteChoice::Copy, &stream);
        assert_eq!(status(&copied), Some(Status::VENDOR));
        for told in [
            filled(&device, 0).copy_from(&tensor, Some(&stream)),
            tensor.wait_to_read(&stream),
            tensor.wait_to_export(&stream),
            tensor.export_on(&stream).map(drop),
            stream
                .synchronize(LIMIT)
                .and_then(|()| tensor.read().map(drop)),
        ] {
            assert_eq!(status(&told), Some(Status::VENDOR));
        }
    }
    tensor.fill(&[5], Some(&stream)).unwrap();
    let (copy, _) = tensor.to_on(&device, RouteChoice::Copy, &stream).unwrap();
    assert_eq!(copy.read().unwrap(), [5; ALL], "it was written again");
    runtime.wait_for_releases(LIMIT).unwrap();
}

#[test]
fn a_device_that_told_of_a_failure_told_it_for_its_streams() {
    let (_runtime, device) = one_cpu();
    let tensor = filled(&device, 1);
    let (stream, host_event) = held(&device);
    tensor.fill(&[9], Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(device.synchronize(LIMIT).is_err());
    let copied = tensor.to_on(&device, RouteChoice::Copy, &stream);
    assert_eq!(status(&copied), Some(Status::VENDOR));
}

#[test]
fn a_write_that_was_refused_clears_no_failure() {
    let name = "a_write_that_was_refused_clears_no_failure";
    // The first copy makes the tensor.
    if with_faults(name, "cpu.copy:2=OOM_HOST") {
        let (_runtime, device) = one_cpu();
        let (tensor, _stream) = failed_on_stream(&device);
        let refused = tensor.write(&[5; ALL]);
        assert_eq!(status(&refused), Some(Status::OOM_HOST));
        assert_eq!(status(&tensor.read()), Some(Status::VENDOR));
        tensor.write(&[5; ALL]).unwrap();
        assert_eq!(tensor.read().unwrap(), [5; ALL]);
    }
}

#[test]
fn who_waits_for_a_stream_leaves_its_failure_to_its_owner() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let target = Tensor::empty(
        &other,
        &Layout::compact("int8x3".parse().unwrap(), &[5]).unwrap(),
    );
    let (stream, host_event) = held(&one);
    host_event.complete(Status::VENDOR).unwrap();
    // No plugin fills elements of three bytes, so the caller waits for the stream.
    let filled = target.unwrap().fill(&[1; 3], Some(&stream));
    assert!(filled.is_err());
    assert!(stream.synchronize(LIMIT).is_err());
}

#[test]
fn work_that_a_stream_could_not_be_told_of_is_waited_for_by_who_comes_later() {
    let name = "work_that_a_stream_could_not_be_told_of_is_waited_for_by_who_comes_later";
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    // The first wait is that of a stream of ours for the point where the work begins.
    if with_faults(name, "cpu.stream_wait_event:2=VENDOR") {
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.plugin(file).open().unwrap();
        let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
        let devices = runtime.devices().into_iter();
        let mut others = devices.filter(|device| !Arc::ptr_eq(device.plugin(), cpu.plugin()));
        let Some(other) = others.next() else {
            return report("skipped: there is no OpenCL device");
        };
        let (source, target) = (filled(&other, 7), filled(&other, 0));
        let (writing, host_event) = held(&other);
        source.written_on(&writing).unwrap();
        let stream = Stream::new(&cpu).unwrap();
        let copied = target.copy_from(&source, Some(&stream));
        assert_eq!(status(&copied), Some(Status::VENDOR));
        target.wait_to_read(&stream).unwrap();
        assert!(is_late(&stream), "the copy is there, and not over");
        host_event.complete(Status::OK).unwrap();
        stream.synchronize(LIMIT).unwrap();
        assert_eq!(target.read().unwrap(), [7; ALL]);
    }
}

#[test]
fn a_completion_that_fails_once_is_made_again() {
    let name = "a_completion_that_fails_once_is_made_again";
    if with_faults(name, "cpu.event_complete:1=VENDOR") {
        let Some((_runtime, one, other)) = two_cpus() else {
            return;
        };
        let (first, host_event) = held(&one);
        let second = Stream::new(&other).unwrap();
        second.wait(&first.record().unwrap()).unwrap();
        assert_eq!(
            status(&host_event.complete(Status::OK)),
            Some(Status::VENDOR)
        );
        host_event.complete(Status::OK).unwrap();
        second.synchronize(LIMIT).unwrap();
    }
}

#[test]
fn a_wait_that_a_plugin_refuses_is_told() {
    let name = "a_wait_that_a_plugin_refuses_is_told";
    if with_faults(name, "cpu.stream_wait_event:2=VENDOR") {
        let (_runtime, device) = one_cpu();
        let (first, host_event) = held(&device);
        let second = Stream::new(&device).unwrap();
        let waited = second.wait(&first.record().unwrap());
        assert_eq!(status(&waited), Some(Status::VENDOR));
        host_event.complete(Status::OK).unwrap();
    }
}

#[test]
fn a_stream_that_cannot_be_made_to_wait_for_want_of_memory_says_so() {
    let name = "a_stream_that_cannot_be_made_to_wait_for_want_of_memory_says_so";
    // Each of the two plugins has a first call.
    if with_faults(name, "cpu.event_create_host:1=OOM_DEVICE") {
        let Some((_runtime, one, other)) = two_cpus() else {
            return;
        };
        assert!(Event::host(&one).is_err());
        let (first, host_event) = held(&one);
        let event = first.record().unwrap();
        host_event.complete(Status::OK).unwrap();
        let waited = Stream::new(&other).unwrap().wait(&event);
        assert_eq!(status(&waited), Some(Status::OOM_DEVICE));
    }
}

#[test]
fn work_that_gets_no_stream_of_ours_for_want_of_memory_says_so() {
    let name = "work_that_gets_no_stream_of_ours_for_want_of_memory_says_so";
    if with_faults(name, "cpu.stream_create:1=OOM_DEVICE") {
        let Some((_runtime, one, other)) = two_cpus() else {
            return;
        };
        assert!(Stream::new(&one).is_err());
        let stream = Stream::new(&one).unwrap();
        let (source, target) = (filled(&other, 7), filled(&other, 0));
        let copied = target.copy_from(&source, Some(&stream));
        assert_eq!(status(&copied), Some(Status::OOM_DEVICE));
    }
}

#[test]
fn who_waits_with_a_limit_is_told_that_it_passed_also_where_the_first_question_failed() {
    let name = "who_waits_with_a_limit_is_told_that_it_passed_also_where_the_first_question_failed";
    if with_faults(name, "cpu.event_synchronize:1=OOM_HOST") {
        let (_runtime, device) = one_cpu();
        let target = filled(&device, 7);
        let (writing, host_event) = held(&device);
        target.written_on(&writing).unwrap();
        let waited = target.synchronize(Some(MOMENT));
        assert_eq!(status(&waited), Some(Status::TIMEOUT));
        host_event.complete(Status::OK).unwrap();
        target.synchronize(LIMIT).unwrap();
    }
}

#[test]
fn a_fill_that_fails_is_told_and_made_in_no_other_way() {
    let name = "a_fill_that_fails_is_told_and_made_in_no_other_way";
    if with_faults(name, "cpu.fill:1=VENDOR") {
        let (_runtime, device) = one_cpu();
        let target = filled(&device, 7);
        assert_eq!(status(&target.fill(&[9], None)), Some(Status::VENDOR));
        assert_eq!(target.read().unwrap(), [7; ALL]);
    }
}

#[test]
fn an_alias_shares_the_work_on_its_memory() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let source = filled(&one, 1);
    let choice = RouteChoice::Only(RouteKind::Alias);
    let (alias, _) = source.to(&other, choice).unwrap();
    let (writing, host_event) = held(&one);
    source.written_on(&writing).unwrap();
    let early = alias.synchronize(Some(MOMENT));
    assert_eq!(status(&early), Some(Status::TIMEOUT));
    host_event.complete(Status::OK).unwrap();
    alias.synchronize(LIMIT).unwrap();
}

#[test]
fn nobody_has_to_wait_between_plugins_that_complete_events_and_call_the_host() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let stream = Stream::new(&one).unwrap();
    let (_copy, route) = filled(&one, 7).to_on(&other, DIRECT, &stream).unwrap();
    assert!(!route.to_string().contains("waits"), "{route}");
}

#[test]
fn an_alias_on_a_device_that_its_runtime_retired_is_refused() {
    let (Some((runtime, one, other)), Some((_lists_it_too, ..))) = (two_cpus(), two_cpus()) else {
        return;
    };
    let source = filled(&one, 1);
    runtime.retire(other.plugin()).unwrap();
    let alias = source.to(&other, RouteChoice::Only(RouteKind::Alias));
    let error = alias.map(drop).unwrap_err();
    let told = format!("{error}: {}", error.why());
    assert!(told.contains("retired"), "{told}");
}

#[test]
fn the_time_between_two_events_is_that_of_one_plugin_and_runs_forwards() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let stream = Stream::new(&one).unwrap();
    let earlier = stream.record().unwrap();
    earlier.synchronize(LIMIT).unwrap();
    let host_event = Event::host(&one).unwrap();
    stream.wait(&host_event).unwrap();
    let later = stream.record().unwrap();
    host_event.complete(Status::OK).unwrap();
    later.synchronize(LIMIT).unwrap();
    assert!(later.elapsed_since(&earlier).unwrap() > Duration::ZERO);
    let foreign = Stream::new(&other).unwrap().record().unwrap();
    foreign.synchronize(LIMIT).unwrap();
    let misuse = foreign.elapsed_since(&earlier).unwrap_err();
    assert!(matches!(misuse, Error::Misuse { .. }), "{misuse}");
}

#[test]
fn memory_of_others_is_adopted_whole() {
    let Some((runtime, _, other)) = two_cpus() else {
        return;
    };
    let (source, is_back) = writable(&runtime);
    let (alias, _) = source
        .to(&other, RouteChoice::Only(RouteKind::Alias))
        .unwrap();
    drop(source);
    assert_eq!(alias.read().unwrap(), [7; ALL]);
    assert!(!is_back.load(Ordering::SeqCst));
    drop(alias);
    assert!(is_back.load(Ordering::SeqCst));
}

#[test]
fn work_whose_end_has_no_event_is_not_begun() {
    let name = "work_whose_end_has_no_event_is_not_begun";
    if with_faults(name, "cpu.event_create:1=OOM_HOST") {
        let (_runtime, cpu, [target, source]) = ones_and_twos();
        let stream = Stream::new(&cpu).unwrap();
        let copied = target.copy_from(&source, Some(&stream));
        assert_eq!(status(&copied), Some(Status::OOM_HOST));
        stream.synchronize(LIMIT).unwrap();
        assert_eq!(target.read().unwrap(), [1; ALL]);
        target.copy_from(&source, Some(&stream)).unwrap();
        assert_eq!(target.read().unwrap(), [2; ALL]);
    }
}

/// The end of the first work on a stream is not recorded, neither on it nor on any other.
const NO_END: &str = "cpu.event_record:1=VENDOR,cpu.event_record:2=VENDOR";

/// A CPU with a tensor of ones and one of twos.
fn ones_and_twos() -> (Runtime, Device, [Tensor; 2]) {
    let (runtime, cpu) = one_cpu();
    let tensors = [1, 2].map(|byte| filled(&cpu, byte));
    (runtime, cpu, tensors)
}

#[test]
fn work_without_an_end_is_over_once_its_stream_was() {
    let name = "work_without_an_end_is_over_once_its_stream_was";
    if with_faults(name, NO_END) {
        let (_runtime, cpu, [tensor, source]) = ones_and_twos();
        let stream = Stream::new(&cpu).unwrap();
        assert!(tensor.copy_from(&source, Some(&stream)).is_err());
        tensor.synchronize(LIMIT).unwrap();
        tensor.write(&source.read().unwrap()).unwrap();
        // What comes on the stream later is nobody's business here.
        let host_event = Event::host(&cpu).unwrap();
        stream.wait(&host_event).unwrap();
        tensor.synchronize(LIMIT).unwrap();
        assert_eq!(tensor.read().unwrap(), source.read().unwrap());
        host_event.complete(Status::OK).unwrap();
    }
}

#[test]
fn work_for_a_stream_of_another_plugin_gets_its_end_later() {
    let name = "work_for_a_stream_of_another_plugin_gets_its_end_later";
    if with_environment(name, &[("NO_END", "1")]) {
        let rig = Simulated::new();
        let [cpu, device] = ["cpu:0", "vpi:0"].map(|name| rig.device(name));
        let [target, source] = [1, 2].map(|byte| filled(&device, byte));
        let (stream, host_event) = held(&cpu);
        let twice = "call:event_record@1=VENDOR,call:event_record@2=VENDOR";
        rig.control.inject(twice).unwrap();
        assert!(target.copy_from(&source, Some(&stream)).is_err());
        // The copy is there: a wait for the device finds it, and what comes now still comes after it.
        let waited = device.synchronize(Some(Duration::ZERO));
        assert_eq!(status(&waited), Some(Status::TIMEOUT));
        let waited = source.synchronize(Some(Duration::ZERO));
        assert!(waited.is_ok(), "{waited:?}");
        assert_eq!(
            status(&target.synchronize(Some(Duration::ZERO))),
            Some(Status::TIMEOUT)
        );
        host_event.complete(Status::OK).unwrap();
        assert_eq!(target.read().unwrap(), [2; ALL]);
        source.fill(&[3], None).unwrap();
        drop((target, source));
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        assert_eq!(counted_leaks(), 0);
    }
}

#[test]
fn work_without_an_end_has_failed_where_its_stream_told_of_a_failure_since() {
    let name = "work_without_an_end_has_failed_where_its_stream_told_of_a_failure_since";
    if with_faults(name, NO_END) {
        let (_runtime, cpu, [tensor, source]) = ones_and_twos();
        let (stream, host_event) = held(&cpu);
        assert!(tensor.copy_from(&source, Some(&stream)).is_err());
        host_event.complete(Status::VENDOR).unwrap();
        assert!(stream.synchronize(LIMIT).is_err());
        for _ in 0..2 {
            assert!(tensor.read().is_err(), "nobody wrote it");
            for on in [&stream, &Stream::new(&cpu).unwrap()] {
                let copied = tensor.to_on(&cpu, RouteChoice::Copy, on);
                assert!(copied.and_then(|(copy, _)| copy.read()).is_err());
            }
        }
        assert_eq!(source.read().unwrap(), [2; ALL], "it was read only");
        tensor.write(&[5; ALL]).unwrap();
        assert_eq!(tensor.read().unwrap(), [5; ALL]);
    }
}

#[test]
fn who_waits_for_a_host_event_that_is_freed_learns_that_it_was() {
    let (_runtime, device) = one_cpu();
    let target = filled(&device, 0);
    let (stream, host_event) = held(&device);
    target.written_on(&stream).unwrap();
    drop(host_event);
    let answers = [
        stream.synchronize(LIMIT).unwrap_err(),
        target.synchronize(LIMIT).unwrap_err(),
    ];
    for error in answers {
        assert_eq!(error.status(), Some(Status::VENDOR));
        assert!(error.why().contains("destroyed before"), "{}", error.why());
    }
}

#[test]
fn work_without_an_end_ended_well_where_its_stream_told_of_no_failure() {
    let name = "work_without_an_end_ended_well_where_its_stream_told_of_no_failure";
    if with_faults(name, NO_END) {
        let (_runtime, cpu, [tensor, source]) = ones_and_twos();
        let stream = Stream::new(&cpu).unwrap();
        assert!(tensor.copy_from(&source, Some(&stream)).is_err());
        stream.synchronize(LIMIT).unwrap();
        assert_eq!(tensor.read().unwrap(), [2; ALL]);
    }
}

#[test]
fn a_read_without_an_end_whose_stream_told_of_a_failure_fails_no_write_after_it() {
    let name = "a_read_without_an_end_whose_stream_told_of_a_failure_fails_no_write_after_it";
    if with_faults(name, NO_END) {
        let (_runtime, cpu, [tensor, source]) = ones_and_twos();
        let (reading, host_event) = held(&cpu);
        assert!(tensor.copy_from(&source, Some(&reading)).is_err());
        host_event.complete(Status::VENDOR).unwrap();
        assert!(reading.synchronize(LIMIT).is_err());
        // Its end is recorded behind this, so nobody knows yet how that will be.
        let host_event = Event::host(&cpu).unwrap();
        reading.wait(&host_event).unwrap();
        let writing = Stream::new(&cpu).unwrap();
        source.fill(&[5], Some(&writing)).unwrap();
        host_event.complete(Status::OK).unwrap();
        writing.synchronize(LIMIT).unwrap();
        assert_eq!(source.read().unwrap(), [5; ALL]);
    }
}

#[test]
fn work_for_a_stream_of_another_plugin_is_not_done_behind_a_failure_there() {
    let Some((_runtime, one, other)) = two_cpus() else {
        return;
    };
    let (source, target) = (filled(&other, 7), filled(&other, 1));
    let (stream, host_event) = held(&one);
    target.copy_from(&source, Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert_eq!(status(&target.read()), Some(Status::VENDOR));
    assert_eq!(status(&stream.synchronize(LIMIT)), Some(Status::VENDOR));
}

#[test]
fn memory_of_work_that_failed_as_it_was_put_on_a_stream_is_kept_until_the_stream_is_past_it() {
    let name =
        "memory_of_work_that_failed_as_it_was_put_on_a_stream_is_kept_until_the_stream_is_past_it";
    if with_faults(name, "cpu.copy:1=VENDOR") {
        let (runtime, device) = one_cpu();
        let (source, is_back) = lent(&runtime, None);
        let (stream, host_event) = held(&device);
        // A part of it may be on the stream.
        let copied = source.to_on(&device, DIRECT, &stream);
        assert_eq!(status(&copied), Some(Status::VENDOR));
        drop(source);
        assert!(runtime.wait_for_releases(Some(MOMENT)).is_err());
        assert!(!is_back.load(Ordering::SeqCst));
        host_event.complete(Status::OK).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(is_back.load(Ordering::SeqCst) && counted_leaks() == 0);
    }
}
