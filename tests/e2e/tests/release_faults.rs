//! Memory whose release meets a failure, or work on several streams: it is freed behind all of them, by
//! who may free it, and leaked where nobody can tell.
#![expect(unsafe_code, reason = "forks a child")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};

use crossdock::{CostCache, Error, RouteChoice, RouteKind, Runtime, Stream, Tensor, counted_leaks};
use crossdock_e2e::lending::{
    ALL, LIMIT, MOMENT, filled, held, layout, lent, one_cpu, status, two_cpus, writable,
};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{plugin_file, report, with_faults};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);

#[test]
fn work_whose_end_is_recorded_at_the_second_try_is_work_like_any_other() {
    let name = "work_whose_end_is_recorded_at_the_second_try_is_work_like_any_other";
    if with_faults(name, "cpu.event_record:1=VENDOR") {
        let (runtime, device) = one_cpu();
        let (source, is_back) = lent(&runtime, None);
        let (stream, host_event) = held(&device);
        let (copy, _) = source.to_on(&device, DIRECT, &stream).unwrap();
        drop(source);
        assert!(runtime.wait_for_releases(Some(MOMENT)).is_err());
        assert!(!is_back.load(Ordering::SeqCst));
        host_event.complete(Status::OK).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(is_back.load(Ordering::SeqCst) && counted_leaks() == 0);
        assert!(copy.read().is_ok());
    }
}

#[test]
fn work_whose_end_nobody_can_tell_keeps_its_memory() {
    let name = "work_whose_end_nobody_can_tell_keeps_its_memory";
    let faults = "cpu.event_record:*=VENDOR,cpu.stream_synchronize:*=VENDOR";
    if with_faults(name, faults) {
        let (runtime, device) = one_cpu();
        let (source, is_back) = lent(&runtime, None);
        let (stream, host_event) = held(&device);
        let copied = source.to_on(&device, DIRECT, &stream);
        assert_eq!(status(&copied), Some(Status::VENDOR));
        let waited = source.wait_to_write(&stream);
        assert_eq!(status(&waited), Some(Status::VENDOR));
        source.synchronize(LIMIT).unwrap();
        drop(source);
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(!is_back.load(Ordering::SeqCst) && counted_leaks() > 0);
        host_event.complete(Status::OK).unwrap();
    }
}

#[test]
fn memory_of_a_copy_that_panicked_without_a_stream_is_leaked() {
    let name = "memory_of_a_copy_that_panicked_without_a_stream_is_leaked";
    if with_faults(name, "cpu.copy:*=PANIC") {
        let (runtime, device) = one_cpu();
        let (source, is_back) = lent(&runtime, None);
        assert_eq!(status(&source.to(&device, DIRECT)), Some(Status::PANIC));
        assert!(source.synchronize(LIMIT).is_err());
        drop(source);
        assert!(!is_back.load(Ordering::SeqCst) && counted_leaks() > 0);
    }
}

#[test]
fn memory_of_a_staged_copy_that_panicked_is_leaked() {
    let name = "memory_of_a_staged_copy_that_panicked_is_leaked";
    if with_faults(name, "cpu.copy:*=PANIC") {
        let rig = Simulated::new();
        let (source, is_back) = lent(&rig.runtime, None);
        let staged = RouteChoice::Only(RouteKind::Staged);
        let moved = source.to(&rig.device("vpi:1"), staged);
        assert_eq!(status(&moved), Some(Status::PANIC));
        assert_eq!(
            counted_leaks(),
            2,
            "the destination, and the host memory between the two"
        );
        assert!(source.synchronize(LIMIT).is_err());
        drop(source);
        assert!(!is_back.load(Ordering::SeqCst) && counted_leaks() == 3);
    }
}

#[test]
fn host_memory_that_a_read_lent_to_a_hook_that_panicked_is_leaked_once() {
    let name = "host_memory_that_a_read_lent_to_a_hook_that_panicked_is_leaked_once";
    if with_faults(name, "asynchronous.copy:2=PANIC") {
        let rig = Simulated::new();
        let tensor = filled(&rig.device("vpi:1"), 3);
        assert_eq!(status(&tensor.read()), Some(Status::PANIC));
        assert_eq!(counted_leaks(), 1);
        assert_eq!(status(&tensor.read()), Some(Status::PANIC));
        assert_eq!(
            counted_leaks(),
            1,
            "the hook was not called once more, and was given nothing"
        );
    }
}

#[test]
fn memory_of_others_that_an_adoption_or_a_registration_which_panicked_was_given_is_leaked() {
    let name =
        "memory_of_others_that_an_adoption_or_a_registration_which_panicked_was_given_is_leaked";
    let faults = "asynchronous.register_host:1=PANIC,cpu.adopt:1=PANIC";
    if with_faults(name, faults) {
        let rig = Simulated::new();
        let (registered, first) = writable(&rig.runtime);
        let refused = registered.register(&rig.device("vpi:0"));
        assert_eq!(status(&refused), Some(Status::PANIC));
        let Some((runtime, _, other)) = two_cpus() else {
            return;
        };
        let (adopted, second) = writable(&runtime);
        let alias = RouteChoice::Only(RouteKind::Alias);
        assert_eq!(status(&adopted.to(&other, alias)), Some(Status::PANIC));
        assert_eq!(counted_leaks(), 2);
        // Nobody works on it, so it can still be read.
        assert_eq!(registered.read().unwrap(), [7; ALL]);
        drop((registered, adopted));
        for is_back in [first, second] {
            assert!(!is_back.load(Ordering::SeqCst));
        }
    }
}

#[test]
fn a_read_whose_wait_was_given_up_still_holds_memory_that_was_written_since() {
    let name = "a_read_whose_wait_was_given_up_still_holds_memory_that_was_written_since";
    let faults = "cpu.event_query:*=VENDOR,cpu.stream_host_call:1=VENDOR,\
                  cpu.event_synchronize:*=VENDOR,cpu.stream_synchronize:*=VENDOR,\
                  cpu.stream_query:*=VENDOR";
    if with_faults(name, faults) {
        let (runtime, device) = one_cpu();
        let (source, is_back) = writable(&runtime);
        let (reading, host_event) = held(&device);
        let (copy, _) = source.to_on(&device, DIRECT, &reading).unwrap();
        let writing = Stream::new(&device).unwrap();
        // The read is polled for in vain: so the write fails and never runs.
        let written = source.copy_from(&filled(&device, 9), Some(&writing));
        assert!(written.is_ok(), "{written:?}");
        drop(source);
        let early = runtime.wait_for_releases(Some(MOMENT));
        assert!(!is_back.load(Ordering::SeqCst), "{early:?}");
        host_event.complete(Status::OK).unwrap();
        drop(copy);
    }
}

#[test]
fn a_release_that_takes_long_delays_no_stream() {
    let Some((runtime, one, other)) = two_cpus() else {
        return;
    };
    let (leave, waits_for_leave) = channel();
    let (source, is_back) = lent(&runtime, Some(waits_for_leave));
    let (stream, host_event) = held(&one);
    let (copy, _) = source.to_on(&one, DIRECT, &stream).unwrap();
    drop(source);
    host_event.complete(Status::OK).unwrap();
    stream.synchronize(LIMIT).unwrap();
    let (first, host_event) = held(&one);
    let second = Stream::new(&other).unwrap();
    second.wait(&first.record().unwrap()).unwrap();
    host_event.complete(Status::OK).unwrap();
    second.synchronize(LIMIT).unwrap();
    assert!(
        !is_back.load(Ordering::SeqCst),
        "it is still being released"
    );
    leave.send(()).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert!(is_back.load(Ordering::SeqCst));
    drop(copy);
}

#[test]
fn a_stream_frees_no_memory_that_work_on_another_may_use() {
    let (runtime, device) = one_cpu();
    let tensor = filled(&device, 1);
    let (reading, host_event) = held(&device);
    tensor.used_on(&reading).unwrap();
    let (last, last_host_event) = held(&device);
    tensor.used_on(&last).unwrap();
    drop(tensor);
    last_host_event.complete(Status::OK).unwrap();
    last.synchronize(LIMIT).unwrap();
    let early = runtime.wait_for_releases(Some(MOMENT));
    assert_eq!(status(&early), Some(Status::TIMEOUT));
    host_event.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
}

#[test]
fn a_stream_frees_memory_that_work_on_another_uses_where_it_waits_for_that() {
    let name = "a_stream_frees_memory_that_work_on_another_uses_where_it_waits_for_that";
    // What a stream was told to free and did not is leaked, so it is seen that one was told.
    if with_faults(name, "cpu.free_async:1=VENDOR") {
        let (runtime, device) = one_cpu();
        let tensor = filled(&device, 1);
        let (writing, host_event) = held(&device);
        tensor.fill(&[2], Some(&writing)).unwrap();
        let reading = Stream::new(&device).unwrap();
        let choice = RouteChoice::Copy;
        let (copy, _) = tensor.to_on(&device, choice, &reading).unwrap();
        drop(tensor);
        assert_eq!(counted_leaks(), 1);
        host_event.complete(Status::OK).unwrap();
        assert_eq!(copy.read().unwrap(), [2; ALL]);
        runtime.wait_for_releases(LIMIT).unwrap();
    }
}

#[test]
fn freeing_memory_brings_no_failure_of_one_stream_to_another() {
    let (runtime, device) = one_cpu();
    let tensor = filled(&device, 1);
    let (failing, host_event) = held(&device);
    tensor.used_on(&failing).unwrap();
    let (last, last_host_event) = held(&device);
    tensor.used_on(&last).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert!(failing.synchronize(LIMIT).is_err());
    drop(tensor);
    last_host_event.complete(Status::OK).unwrap();
    last.synchronize(LIMIT).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
}

#[test]
fn freeing_memory_makes_no_stream_wait_for_another_plugin() {
    let Some((runtime, one, other)) = two_cpus() else {
        return;
    };
    for is_own_first in [false, true] {
        let tensor = filled(&one, 1);
        let (foreign, host_event) = held(&other);
        let (own, own_host_event) = held(&one);
        let streams = if is_own_first {
            [&own, &foreign]
        } else {
            [&foreign, &own]
        };
        for stream in streams {
            tensor.used_on(stream).unwrap();
        }
        drop(tensor);
        own_host_event.complete(Status::OK).unwrap();
        own.synchronize(LIMIT).unwrap();
        assert!(runtime.wait_for_releases(Some(MOMENT)).is_err());
        host_event.complete(Status::OK).unwrap();
        foreign.synchronize(LIMIT).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
    }
}

#[test]
fn memory_of_others_is_never_freed_by_a_stream() {
    let name = "memory_of_others_is_never_freed_by_a_stream";
    if with_faults(name, "cpu.free_async:*=PANIC") {
        let (runtime, device) = one_cpu();
        let (source, is_back) = lent(&runtime, None);
        let (stream, host_event) = held(&device);
        let (copy, _) = source.to_on(&device, DIRECT, &stream).unwrap();
        drop(source);
        host_event.complete(Status::OK).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(is_back.load(Ordering::SeqCst) && counted_leaks() == 0);
        assert_eq!(copy.read().unwrap(), [7; ALL]);
    }
}

#[test]
fn who_waits_for_releases_too_short_learns_which_plugins_have_how_many() {
    let (runtime, one) = one_cpu();
    runtime.load(&crossdock_e2e::asynchronous()).unwrap();
    let of_other = |device: &crossdock::Device| device.plugin().name() == "asynchronous";
    let other = runtime.devices().into_iter().find(of_other).unwrap();
    let ((stream, first), (other_stream, last)) = (held(&one), held(&other));
    for _ in 0..2 {
        lent(&runtime, None).0.used_on(&stream).unwrap();
    }
    filled(&other, 1).used_on(&other_stream).unwrap();
    let late = runtime.wait_for_releases(Some(MOMENT)).unwrap_err();
    assert_eq!(late.status(), Some(Status::TIMEOUT), "{late}");
    let each = "2 of plugin `cpu`, 1 of plugin `asynchronous`";
    assert!(late.why().contains(each), "{}", late.why());
    first.complete(Status::OK).unwrap();
    let why = || runtime.wait_for_releases(Some(MOMENT)).unwrap_err().why();
    while why().contains("`cpu`") {}
    assert!(why().contains("waited for, 1 of plugin `asynchronous`: "));
    last.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
}

#[test]
fn what_failed_work_of_a_retired_plugin_used_is_leaked_unless_it_was_dropped_before() {
    let name = "what_failed_work_of_a_retired_plugin_used_is_leaked_unless_it_was_dropped_before";
    // No fault is ever met; the process is one of its own.
    if with_faults(name, "cpu.retire:1000=VENDOR") {
        let Some((runtime, _, other)) = two_cpus() else {
            return;
        };
        let (before, is_before_back) = lent(&runtime, None);
        let (behind, is_behind_back) = lent(&runtime, None);
        let (stream, host_event) = held(&other);
        before.used_on(&stream).unwrap();
        behind.used_on(&stream).unwrap();
        host_event.complete(Status::VENDOR).unwrap();
        assert!(stream.synchronize(LIMIT).is_err());
        drop(before);
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(is_before_back.load(Ordering::SeqCst) && counted_leaks() == 0);
        runtime.retire(other.plugin()).unwrap();
        drop(stream);
        drop(behind);
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(!is_behind_back.load(Ordering::SeqCst) && counted_leaks() == 1);
    }
}

/// Errors of ours in the log.
static ERRORS: AtomicU32 = AtomicU32::new(0);

struct Told;

impl log::Log for Told {
    fn enabled(&self, about: &log::Metadata<'_>) -> bool {
        about.target().starts_with("crossdock::")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            ERRORS.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn flush(&self) {}
}

#[test]
fn lent_memory_that_a_plugin_did_not_let_go_of_is_leaked() {
    let name = "lent_memory_that_a_plugin_did_not_let_go_of_is_leaked";
    if with_faults(name, "release_adopted:*=VENDOR") {
        let Some((runtime, _, other)) = two_cpus() else {
            return;
        };
        log::set_logger(&Told).unwrap();
        log::set_max_level(log::LevelFilter::Error);
        let (source, is_back) = lent(&runtime, None);
        let (alias, _) = source
            .to(&other, RouteChoice::Only(RouteKind::Alias))
            .unwrap();
        drop(source);
        drop(alias);
        assert!(!is_back.load(Ordering::SeqCst) && counted_leaks() == 1);
        assert_eq!(ERRORS.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn what_a_plugin_did_not_take_back_is_counted_once_each() {
    let name = "what_a_plugin_did_not_take_back_is_counted_once_each";
    let faults = "cpu.free:1=VENDOR,cpu.free:3=UNSUPPORTED,\
                  cpu.stream_destroy:1=VENDOR,cpu.event_destroy:1=VENDOR";
    if with_faults(name, faults) {
        let (_runtime, device) = one_cpu();
        let given = filled(&device, 1);
        drop(given);
        assert_eq!(counted_leaks(), 1, "memory");
        let stream = Stream::new(&device).unwrap();
        drop(stream.record().unwrap());
        assert_eq!(counted_leaks(), 2, "an event");
        drop(stream);
        assert_eq!(counted_leaks(), 3, "a stream");
        drop(filled(&device, 1));
        assert_eq!(counted_leaks(), 3, "what was taken back");
        drop(filled(&device, 1));
        assert_eq!(
            counted_leaks(),
            4,
            "memory that the plugin calls unsupported"
        );
    }
}

#[test]
fn a_child_gives_nothing_back_that_it_inherited_and_reports_no_error() {
    let name = "a_child_gives_nothing_back_that_it_inherited_and_reports_no_error";
    // No fault is ever met; the process is one of its own.
    if with_faults(name, "cpu.retire:1000=VENDOR") {
        let Some((runtime, device, other)) = two_cpus() else {
            return;
        };
        let (source, is_back) = lent(&runtime, None);
        let nothing = Layout::compact(Dtype::UINT8, &[0]).unwrap();
        let empty = Tensor::empty(&device, &nothing).unwrap();
        let allocated = filled(&device, 1);
        let choice = RouteChoice::Only(RouteKind::Alias);
        let (alias, _) = allocated.to(&other, choice).unwrap();
        let stream = Stream::new(&device).unwrap();
        let event = stream.record().unwrap();
        log::set_logger(&Told).unwrap();
        log::set_max_level(log::LevelFilter::Error);
        // SAFETY: the child calls only what a child may, and ends without a destructor.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop((source, empty));
            let lent = !is_back.load(Ordering::SeqCst) && counted_leaks() == 1;
            // What it is an alias of is leaked with it, as the plugin may have it still.
            drop((alias, allocated));
            let memory = lent && counted_leaks() == 2;
            drop(event);
            drop(stream);
            let right = memory && counted_leaks() == 4 && ERRORS.load(Ordering::SeqCst) == 0;
            // SAFETY: it ends this process, and no other thread is in it.
            unsafe { libc::_exit(i32::from(!right)) }
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
    }
}

#[test]
fn a_mapping_that_does_not_end_keeps_what_it_maps() {
    let name = "a_mapping_that_does_not_end_keeps_what_it_maps";
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    if with_faults(name, "opencl.unmap:*=VENDOR") {
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.plugin(file).open().unwrap();
        let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
        let devices = runtime.devices().into_iter();
        let mut others = devices.filter(|device| !Arc::ptr_eq(device.plugin(), cpu.plugin()));
        let Some(other) = others.next() else {
            return report("skipped: there is no OpenCL device");
        };
        let choice = RouteChoice::Only(RouteKind::Alias);
        let (mapped, _) = filled(&other, 7).to(&cpu, choice).unwrap();
        assert_eq!(mapped.read().unwrap(), [7; ALL]);
        drop(mapped);
        assert_eq!(counted_leaks(), 1);
    }
}

/// Memory of somebody who waits for releases while it is released.
struct Waits {
    bytes: Vec<u8>,
    runtime: Runtime,
    told: Sender<Result<(), Error>>,
}

impl AsRef<[u8]> for Waits {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let _heard = self.told.send(self.runtime.wait_for_releases(LIMIT));
    }
}

#[test]
fn a_release_that_waits_for_releases_is_told_that_it_is_one() {
    let (runtime, device) = one_cpu();
    let (told, hears) = channel();
    let owner = Waits {
        bytes: vec![7; ALL],
        runtime: runtime.clone(),
        told,
    };
    let source = Tensor::from_host_memory(&runtime, Box::new(owner), 0, &layout()).unwrap();
    let (stream, host_event) = held(&device);
    let (copy, _) = source.to_on(&device, DIRECT, &stream).unwrap();
    drop(source);
    host_event.complete(Status::OK).unwrap();
    let told = hears.recv_timeout(LIMIT.unwrap() / 2).unwrap();
    assert!(matches!(told, Err(Error::Misuse { .. })), "{told:?}");
    runtime.wait_for_releases(LIMIT).unwrap();
    drop(copy);
}
