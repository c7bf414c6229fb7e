//! Devices that are never done at once, held still: what may be submitted meanwhile, and what follows.
//!
//! All tests of this file share one open plugin, so they run one after another.
#![expect(unsafe_code, reason = "reads the control table of the plugin")]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crossdock::{Error, Event, RouteChoice, RouteKind, Stream, Tensor, WaitMethod, counted_leaks};
use crossdock_e2e::lending;
use crossdock_e2e::simulated::Simulated;
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::dlpack::{
    AxisSlice, DataWord, Dtype, Flags, Layout, Produced, Received, TensorView,
};

const LIMIT: Duration = Simulated::LIMIT;
/// Long enough for what must not happen to be seen.
const MOMENT: Duration = Duration::from_millis(30);
const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);

/// Bytes of somebody else, who is told when they are given back.
struct Lent(Vec<u8>, Sender<()>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A device that still reads them then would read these.
        self.0.fill(0xee);
        let _nobody_waits = self.1.send(());
    }
}

fn numbers(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

fn layout(count: i64) -> Layout {
    Layout::compact(Dtype::UINT32, &[count]).unwrap()
}

fn lent(rig: &Simulated, count: u32) -> (Tensor, Receiver<()>) {
    let (told, given_back) = channel();
    let owner = Box::new(Lent(numbers(count), told));
    let layout = layout(count.into());
    let tensor = Tensor::from_host_memory(&rig.runtime, owner, 0, &layout).unwrap();
    (tensor, given_back)
}

fn is_timeout(result: &Result<(), Error>) -> bool {
    matches!(result, Err(error) if error.status() == Some(Status::TIMEOUT))
}

#[test]
fn copies_on_a_stream_return_while_everything_stands_still_and_arrive_afterwards() {
    let rig = Simulated::new();
    let (cpu, one, two) = (
        rig.device("cpu:0"),
        rig.device("vpi:0"),
        rig.device("vpi:1"),
    );
    let stream = Stream::new(&one).unwrap();
    let source = Tensor::from_bytes(&cpu, &layout(50_000), &numbers(50_000)).unwrap();
    let home = rig.held(|| {
        let (there, _) = source.to_on(&one, DIRECT, &stream).unwrap();
        let (across, _) = there.to_on(&two, DIRECT, &stream).unwrap();
        let (home, _) = across.to_on(&cpu, DIRECT, &stream).unwrap();
        assert!(rig.control.pending() >= 3);
        assert!(!stream.is_idle().unwrap());
        for tensor in [&there, &across, &home] {
            assert!(
                tensor
                    .ready()
                    .unwrap()
                    .is_some_and(|ready| !ready.is_done().unwrap())
            );
        }
        home
    });
    assert!(home.read().unwrap() == numbers(50_000));
    drop((source, home, stream));
    rig.assert_clean();
}

#[test]
fn a_stream_for_each_device_is_chained_by_events_only() {
    let rig = Simulated::new();
    let (cpu, one, two) = (
        rig.device("cpu:0"),
        rig.device("vpi:0"),
        rig.device("vpi:1"),
    );
    let [first, second] = [&one, &two].map(|device| Stream::new(device).unwrap());
    let back = Stream::new(&cpu).unwrap();
    let source = Tensor::from_bytes(&cpu, &layout(50_000), &numbers(50_000)).unwrap();
    let home = rig.held(|| {
        let (there, _) = source.to_on(&one, DIRECT, &first).unwrap();
        let (across, _) = there.to_on(&two, DIRECT, &second).unwrap();
        let (home, _) = across.to_on(&cpu, DIRECT, &second).unwrap();
        let chain = back.wait(&home.ready().unwrap().unwrap()).unwrap();
        assert_eq!(chain, WaitMethod::HostEvent);
        assert!(!back.is_idle().unwrap());
        home
    });
    back.synchronize(Some(LIMIT)).unwrap();
    assert!(home.read().unwrap() == numbers(50_000));
    drop((source, home));
    rig.assert_clean();
}

#[test]
fn foreign_memory_is_given_back_behind_the_copy_that_reads_it() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let stream = Stream::new(&one).unwrap();
    let (source, given_back) = lent(&rig, 20_000);
    let moved = rig.held(|| {
        let (moved, _) = source.to_on(&one, DIRECT, &stream).unwrap();
        drop(source);
        assert!(given_back.try_recv().is_err(), "the copy did not begin yet");
        moved
    });
    assert!(moved.read().unwrap() == numbers(20_000));
    given_back.recv_timeout(LIMIT).unwrap();
    drop(moved);
    rig.assert_clean();
}

#[test]
fn foreign_memory_that_two_streams_read_is_given_back_behind_both() {
    let rig = Simulated::new();
    let (one, two) = (rig.device("vpi:0"), rig.device("vpi:1"));
    let (first, host_event) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    let second = Stream::new(&two).unwrap();
    first.wait(&host_event).unwrap();
    let (source, given_back) = lent(&rig, 20_000);
    let (late, _) = source.to_on(&one, DIRECT, &first).unwrap();
    let (early, _) = source.to_on(&two, DIRECT, &second).unwrap();
    drop(source);
    assert!(early.read().unwrap() == numbers(20_000));
    // An early question is answered now.
    while rig.control.progress(u64::MAX) > 0 {}
    let too_early = given_back.recv_timeout(MOMENT);
    assert!(too_early.is_err(), "one of two did not begin yet");
    host_event.complete(Status::OK).unwrap();
    assert!(late.read().unwrap() == numbers(20_000));
    given_back.recv_timeout(LIMIT).unwrap();
    drop((early, late));
    rig.assert_clean();
}

#[test]
fn what_fails_late_is_told_to_whoever_waits_and_not_to_who_submits() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let stream = Stream::new(&one).unwrap();
    let (source, given_back) = lent(&rig, 5000);
    rig.control.inject("run:copy@1=DEVICE_LOST").unwrap();
    let (moved, _) = source.to_on(&one, DIRECT, &stream).unwrap();
    let after = Stream::new(&cpu).unwrap();
    after.wait(&moved.ready().unwrap().unwrap()).unwrap();
    drop(source);
    for _ in 0..2 {
        let told = moved.read().unwrap_err();
        assert_eq!(told.status(), Some(Status::DEVICE_LOST));
    }
    let told = after.synchronize(Some(LIMIT)).unwrap_err();
    assert_eq!(told.status(), Some(Status::DEVICE_LOST));
    assert!(stream.synchronize(Some(LIMIT)).is_err());
    // Work that failed is over too.
    given_back.recv_timeout(LIMIT).unwrap();
    // A write mends what a failed write left.
    moved.write(&numbers(5000)).unwrap();
    assert!(moved.read().unwrap() == numbers(5000));
    drop(moved);
    rig.assert_clean();
}

#[test]
fn a_submission_that_is_refused_leaves_its_source_and_the_stream_as_they_were() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let stream = Stream::new(&one).unwrap();
    let (source, given_back) = lent(&rig, 5000);
    rig.control.inject("call:copy@1=OOM_HOST").unwrap();
    let refused = source.to_on(&one, DIRECT, &stream).unwrap_err();
    assert_eq!(refused.status(), Some(Status::OOM_HOST));
    let (moved, _) = source.to_on(&one, DIRECT, &stream).unwrap();
    assert!(moved.read().unwrap() == numbers(5000));
    drop((source, moved));
    given_back.recv_timeout(LIMIT).unwrap();
    rig.assert_clean();
}

#[test]
fn a_fault_in_every_call_makes_failures_and_no_endless_wait() {
    let rig = Simulated::new();
    let device = rig.device("vpi:1");
    let stream = Stream::new(&device).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout(64), &numbers(64)).unwrap();
    rig.control.inject("call:*@1+=VENDOR").unwrap();
    assert_eq!(tensor.read().unwrap_err().status(), Some(Status::VENDOR));
    assert!(tensor.fill(&[1; 4], Some(&stream)).is_err());
    assert!(Stream::new(&device).is_err() && Tensor::empty(&device, &layout(1)).is_err());
    rig.control.clear_faults();
    assert_eq!(tensor.read().unwrap(), numbers(64));
    drop((stream, tensor));
    rig.assert_clean();
}

#[test]
fn memory_is_freed_in_the_stream_and_nobody_waits_for_it() {
    let rig = Simulated::new();
    let (one, two) = (rig.device("vpi:0"), rig.device("vpi:1"));
    let [first, second] = [&one, &two].map(|device| Stream::new(device).unwrap());
    let source = Tensor::from_bytes(&one, &layout(1 << 16), &numbers(1 << 16)).unwrap();
    let left = rig.control.leaks();
    rig.held(|| {
        let (moved, _) = source.to_on(&two, DIRECT, &first).unwrap();
        let (again, _) = moved.to_on(&one, DIRECT, &second).unwrap();
        drop((source, moved, again));
    });
    drop((first, second));
    rig.assert_clean();
    let memory = |texts: &[String]| {
        texts
            .iter()
            .filter(|text| text.contains("allocate"))
            .count()
    };
    assert_eq!(memory(&left), 1);
    assert_eq!(memory(&rig.control.leaks()), 0, "{:?}", rig.control.leaks());
}

#[test]
fn memory_that_a_stream_declines_to_free_is_freed_behind_the_work_on_it() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let stream = Stream::new(&one).unwrap();
    let tensor = Tensor::from_bytes(&one, &layout(4096), &numbers(4096)).unwrap();
    let faults = "call:free_async@1+=UNSUPPORTED";
    rig.control.inject(faults).unwrap();
    rig.held(|| {
        tensor.fill(&[1; 4], Some(&stream)).unwrap();
        drop(tensor);
    });
    rig.runtime.wait_for_releases(Some(LIMIT)).unwrap();
    rig.control.clear_faults();
    drop(stream);
    rig.assert_clean();
    let left = rig.control.leaks();
    assert!(
        !left.iter().any(|text| text.contains("allocate")),
        "{left:?}"
    );
}

#[test]
fn memory_whose_work_is_over_is_freed_though_its_stream_has_other_work() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let free = || one.memory().unwrap().free;
    let (stream, host_event) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    let before = free();
    let tensor = Tensor::empty(&one, &layout(4096)).unwrap();
    tensor.fill(&[7; 4], Some(&stream)).unwrap();
    stream.synchronize(Some(LIMIT)).unwrap();
    stream.wait(&host_event).unwrap();
    drop(tensor);
    assert_eq!(free(), before);
    host_event.complete(Status::OK).unwrap();
    stream.synchronize(Some(LIMIT)).unwrap();
    rig.assert_clean();
}

/// An owner of a device's memory who is no tensor to the library, and notes that it was given back.
struct OfOthers {
    _own: Tensor,
    is_back: Arc<AtomicBool>,
}

impl Drop for OfOthers {
    fn drop(&mut self) {
        self.is_back.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_child_leaks_what_others_lent_of_a_devices_memory() {
    let rig = Simulated::new();
    let device = rig.device("vpi:1");
    let is_back = Arc::<AtomicBool>::default();
    let own = Tensor::from_bytes(&device, &layout(16), &numbers(16)).unwrap();
    let word = own.address().as_pointer().unwrap();
    let data = DataWord::from_addr(usize::try_from(word).unwrap());
    let view = TensorView::new(layout(16), data, 0, device.id(), Flags::NONE).unwrap();
    let owner = OfOthers {
        _own: own,
        is_back: Arc::clone(&is_back),
    };
    let produced = Produced::new(owner, &view).unwrap();
    // SAFETY: a live export that nobody else owns.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    let lent = Tensor::import(&rig.runtime, received).unwrap();
    // SAFETY: the child calls only what a child may, and ends without a destructor.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(lent);
        let is_leaked = !is_back.load(Ordering::SeqCst) && counted_leaks() == 1;
        // SAFETY: it ends this process, and no other thread is in it.
        unsafe { libc::_exit(i32::from(!is_leaked)) }
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    drop(lent);
    assert!(is_back.load(Ordering::SeqCst));
    rig.assert_clean();
}

#[test]
fn a_child_writes_no_memory_that_its_parents_device_has_too() {
    let rig = Simulated::new();
    let (cpu, device) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let own = Tensor::from_bytes(&device, &layout(16), &numbers(16)).unwrap();
    let (view, _) = own.to(&cpu, RouteChoice::Only(RouteKind::Alias)).unwrap();
    // SAFETY: the child calls only what a child may, and ends without a destructor.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = [&own, &view].map(|tensor| tensor.fill(&[9; 4], None));
        let are_refused = refused
            .iter()
            .all(|one| lending::status(one) == Some(Status::FORKED));
        // SAFETY: it ends this process, and no other thread is in it.
        unsafe { libc::_exit(i32::from(!are_refused)) }
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert_eq!(view.read().unwrap(), numbers(16));
    drop((own, view));
    rig.assert_clean();
}

#[test]
fn a_strided_copy_and_a_fill_follow_the_stream() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let stream = Stream::new(&one).unwrap();
    let whole = Tensor::from_bytes(&one, &layout(100), &numbers(100)).unwrap();
    let even = [AxisSlice {
        start: 0,
        step: 2,
        len: 50,
    }];
    let home = rig.held(|| {
        whole
            .slice(&even)
            .unwrap()
            .fill(&[7; 4], Some(&stream))
            .unwrap();
        let (home, _) = whole.to_on(&cpu, DIRECT, &stream).unwrap();
        assert!(is_timeout(&home.synchronize(Some(Duration::ZERO))));
        home
    });
    let mut wanted = numbers(100);
    for element in wanted.chunks_mut(8) {
        element[..4].fill(7);
    }
    assert_eq!(home.read().unwrap(), wanted);
    drop((whole, home));
    rig.assert_clean();
}

#[test]
fn device_memory_that_the_host_sees_is_one_memory() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let stream = Stream::new(&one).unwrap();
    let tensor = Tensor::from_bytes(&one, &layout(64), &numbers(64)).unwrap();
    let (view, route) = tensor.to(&cpu, RouteChoice::Best).unwrap();
    assert_eq!((route.kind, route.bytes_copied), (RouteKind::Alias, 0));
    tensor.fill(&[9; 4], Some(&stream)).unwrap();
    // A read through the view comes after the fill.
    assert_eq!(view.read().unwrap(), [9; 256]);
    view.write(&numbers(64)).unwrap();
    assert_eq!(tensor.read().unwrap(), numbers(64));
    drop((view, tensor));
    rig.assert_clean();
}

#[test]
fn host_memory_that_a_device_adopts_is_released_behind_the_work_on_it() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let stream = Stream::new(&one).unwrap();
    let (source, given_back) = lent(&rig, 4096);
    let (alias, route) = source.to(&one, RouteChoice::Best).unwrap();
    assert_eq!((route.kind, route.bytes_copied), (RouteKind::Alias, 0));
    let copy = Tensor::empty(&one, &layout(4096)).unwrap();
    rig.held(|| {
        copy.copy_from(&alias, Some(&stream)).unwrap();
        drop((source, alias));
        assert!(given_back.try_recv().is_err(), "the copy did not begin yet");
    });
    assert!(copy.read().unwrap() == numbers(4096));
    given_back.recv_timeout(LIMIT).unwrap();
    drop(copy);
    rig.assert_clean();
}

#[test]
fn adopted_memory_is_released_while_its_stream_is_held_by_later_work() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let (stream, host_event) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    let (source, given_back) = lent(&rig, 4096);
    let (alias, _) = source.to(&one, RouteChoice::Best).unwrap();
    let copy = Tensor::empty(&one, &layout(4096)).unwrap();
    copy.copy_from(&alias, Some(&stream)).unwrap();
    stream.synchronize(Some(LIMIT)).unwrap();
    stream.wait(&host_event).unwrap();
    let dropping = std::thread::spawn(move || drop((source, alias)));
    let told = given_back.recv_timeout(LIMIT);
    host_event.complete(Status::OK).unwrap();
    dropping.join().unwrap();
    told.unwrap();
    drop(copy);
    rig.assert_clean();
}

#[test]
fn host_memory_is_copied_while_an_adoption_of_it_ends() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let [reading, stream] = [&one, &one].map(|device| Stream::new(device).unwrap());
    let source = Tensor::from_bytes(&cpu, &layout(64), &numbers(64)).unwrap();
    let [copy, of_alias] = [(); 2].map(|()| Tensor::empty(&one, &layout(64)).unwrap());
    for _ in 0..500 {
        let choice = RouteChoice::Only(RouteKind::Alias);
        let (alias, _) = source.to(&one, choice).unwrap();
        of_alias.copy_from(&alias, Some(&reading)).unwrap();
        drop(alias);
        // From here on another thread ends the adoption.
        reading.synchronize(Some(LIMIT)).unwrap();
        for _ in 0..4 {
            copy.copy_from(&source, Some(&stream)).unwrap();
        }
    }
    assert!(copy.read().unwrap() == numbers(64));
    drop((source, copy, of_alias));
    rig.assert_clean();
}

#[test]
fn host_memory_is_adopted_while_an_adoption_of_it_ends() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let source = Tensor::from_bytes(&cpu, &layout(64), &numbers(64)).unwrap();
    let adopt = || {
        for _ in 0..500 {
            let choice = RouteChoice::Only(RouteKind::Alias);
            drop(source.to(&one, choice).unwrap());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(adopt);
        adopt();
    });
    rig.assert_clean();
}

#[test]
fn a_write_comes_after_a_read_whose_event_cannot_be_asked() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let [reading, writing] = [&one, &one].map(|device| Stream::new(device).unwrap());
    let host_event = Event::host(&one).unwrap();
    let tensor = Tensor::from_bytes(&one, &layout(4096), &numbers(4096)).unwrap();
    let next = Tensor::from_bytes(&one, &layout(4096), &[7; 4 * 4096]).unwrap();
    let copy = Tensor::empty(&one, &layout(4096)).unwrap();
    reading.wait(&host_event).unwrap();
    copy.copy_from(&tensor, Some(&reading)).unwrap();
    // It says nothing about the work: the system had no memory for an answer.
    rig.control.inject("call:event_query@1=OOM_HOST").unwrap();
    let submitted = tensor.copy_from(&next, Some(&writing));
    rig.control.clear_faults();
    while rig.control.progress(u64::MAX) > 0 {}
    host_event.complete(Status::OK).unwrap();
    assert!(copy.read().unwrap() == numbers(4096), "{submitted:?}");
    drop((tensor, next, copy));
    rig.assert_clean();
}

#[test]
fn a_write_at_once_comes_after_a_read_whose_event_cannot_be_waited_for() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let (stream, host_event) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    let tensor = Tensor::from_bytes(&cpu, &layout(4096), &numbers(4096)).unwrap();
    stream.wait(&host_event).unwrap();
    let (copy, _) = tensor.to_on(&one, DIRECT, &stream).unwrap();
    rig.control
        .inject("call:event_synchronize@1=OOM_HOST")
        .unwrap();
    let (to, written) = channel();
    let writing = tensor.clone();
    let writer = std::thread::spawn(move || to.send(writing.write(&[7; 4 * 4096]).is_ok()));
    let too_early = written.recv_timeout(MOMENT);
    assert!(
        too_early.is_err(),
        "the copy that reads it did not begin yet"
    );
    host_event.complete(Status::OK).unwrap();
    assert!(written.recv_timeout(LIMIT).unwrap());
    writer.join().unwrap().unwrap();
    rig.control.clear_faults();
    assert!(copy.read().unwrap() == numbers(4096));
    drop((tensor, copy));
    rig.assert_clean();
}

#[test]
fn foreign_memory_is_kept_where_nobody_can_say_that_the_copy_is_over() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let (stream, host_event) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    let (source, given_back) = lent(&rig, 4096);
    stream.wait(&host_event).unwrap();
    let (copy, _) = source.to_on(&one, DIRECT, &stream).unwrap();
    // No stream calls a function, so its end is polled, and the first queries are refused.
    let faults = "call:stream_host_call@1=UNSUPPORTED,call:stream_query@1=OOM_HOST,\
                  call:event_query@1=OOM_HOST";
    rig.control.inject(faults).unwrap();
    drop(source);
    let too_early = given_back.recv_timeout(MOMENT);
    assert!(too_early.is_err(), "the copy did not begin yet");
    rig.control.clear_faults();
    host_event.complete(Status::OK).unwrap();
    assert!(copy.read().unwrap() == numbers(4096));
    drop(copy);
    rig.assert_clean();
}

#[test]
fn foreign_memory_is_kept_where_work_was_submitted_and_could_not_be_remembered() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let (stream, host_event) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    let (source, given_back) = lent(&rig, 4096);
    stream.wait(&host_event).unwrap();
    let faults = "call:event_record@1=OOM_HOST,call:event_record@2=OOM_HOST";
    rig.control.inject(faults).unwrap();
    assert!(source.to_on(&one, DIRECT, &stream).is_err());
    drop(source);
    let too_early = given_back.recv_timeout(MOMENT);
    assert!(
        too_early.is_err(),
        "the copy is on the stream, and did not begin yet"
    );
    rig.control.clear_faults();
    host_event.complete(Status::OK).unwrap();
    given_back.recv_timeout(LIMIT).unwrap();
    stream.synchronize(Some(LIMIT)).unwrap();
    rig.assert_clean();
}

#[test]
fn a_device_waits_for_work_of_ours_though_its_plugin_said_nothing_of_it_once() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let elsewhere = Stream::new(&rig.device("vpi:1")).unwrap();
    let host_event = Event::host(&one).unwrap();
    elsewhere.wait(&host_event).unwrap();
    let source = Tensor::from_bytes(&cpu, &layout(4096), &numbers(4096)).unwrap();
    let target = Tensor::empty(&one, &layout(4096)).unwrap();
    target.used_on(&elsewhere).unwrap();
    // The work is of this device and the stream of the CPU, so it is on a stream of ours.
    let stream = Stream::new(&cpu).unwrap();
    target.copy_from(&source, Some(&stream)).unwrap();
    rig.control
        .inject("call:stream_query@1+=CAPTURING")
        .unwrap();
    let other = Stream::new(&cpu).unwrap();
    let copied = source.to_on(&one, DIRECT, &other);
    rig.control.clear_faults();
    // It is held too where there is one hardware queue.
    let _over = other.synchronize(Some(MOMENT));
    assert!(is_timeout(&one.synchronize(Some(MOMENT))), "it is held");
    host_event.complete(Status::OK).unwrap();
    one.synchronize(Some(LIMIT)).unwrap();
    assert!(target.read().unwrap() == numbers(4096));
    drop((source, target, copied));
    rig.assert_clean();
}

#[test]
fn those_who_wait_for_a_plugin_hear_of_its_quarantine() {
    let name = "once_a_hook_panicked_nobody_waits_for_the_plugin";
    again("policy=lazy", &["--ignored", "--exact", name]);
}

#[test]
#[ignore = "one half of the test before it, which starts it: no test of its process comes after it"]
fn once_a_hook_panicked_nobody_waits_for_the_plugin() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let [reading, behind] = [&one, &cpu].map(|device| Stream::new(device).unwrap());
    let host_event = Event::host(&one).unwrap();
    reading.wait(&host_event).unwrap();
    let (source, given_back) = lent(&rig, 4096);
    let (copy, _) = source.to_on(&one, DIRECT, &reading).unwrap();
    behind.wait(&reading.record().unwrap()).unwrap();
    drop(source);
    rig.control.inject("call:allocate@1=PANIC").unwrap();
    let panicked = Tensor::empty(&one, &layout(16)).map(drop).unwrap_err();
    assert_eq!(panicked.status(), Some(Status::PANIC));
    let told = behind.synchronize(Some(LIMIT)).unwrap_err();
    assert_eq!(
        told.status(),
        Some(Status::VENDOR),
        "a stream of another plugin goes on"
    );
    rig.runtime.wait_for_releases(Some(LIMIT)).unwrap();
    assert!(given_back.try_recv().is_err(), "the copy may still read it");
    drop((copy, host_event, reading));
}

#[test]
fn memory_that_a_plugin_may_still_read_is_kept_though_it_was_written_since() {
    let name = "once_a_hook_panicked_memory_that_its_plugin_reads_is_kept";
    again("policy=lazy", &["--ignored", "--exact", name]);
}

#[test]
#[ignore = "one half of the test before it, which starts it: no test of its process comes after it"]
fn once_a_hook_panicked_memory_that_its_plugin_reads_is_kept() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let stream = |device| Stream::new(device).unwrap();
    let [one_line, host_line] = [stream(&one), stream(&cpu)];
    // The device reads on the first stream, and the CPU writes on the second.
    let lines = [
        (stream(&one), stream(&cpu)),
        (one_line.clone(), one_line),
        (host_line.clone(), host_line),
    ];
    let read_and_write = |(reading, writing): &(Stream, Stream)| {
        let host_event = Event::host(reading.device()).unwrap();
        reading.wait(&host_event).unwrap();
        let (memory, is_back) = lending::writable(&rig.runtime);
        let (copy, _) = memory.to_on(&one, DIRECT, reading).unwrap();
        let next = lending::filled(&cpu, 9);
        memory.copy_from(&next, Some(writing)).unwrap();
        (host_event, copy, is_back)
    };
    let begun: Vec<_> = lines.iter().map(read_and_write).collect();
    rig.control.inject("call:allocate@1=PANIC").unwrap();
    assert!(Tensor::empty(&one, &layout(16)).is_err());
    // Everybody else goes on.
    for (host_event, _, _) in &begun {
        let _refused = host_event.complete(Status::OK);
    }
    for (_, writing) in &lines {
        assert!(writing.synchronize(Some(LIMIT)).is_err());
    }
    rig.runtime.wait_for_releases(Some(LIMIT)).unwrap();
    for ((_, _, is_back), (reading, writing)) in begun.iter().zip(&lines) {
        let (reading, writing) = (reading.device(), writing.device());
        assert!(
            !is_back.load(Ordering::SeqCst),
            "read on {reading}, written on {writing}"
        );
    }
}

#[test]
fn no_stream_frees_its_plugins_memory_while_another_plugin_may_read_it() {
    let name = "once_a_hook_panicked_memory_that_its_plugin_reads_is_not_freed";
    again("policy=lazy", &["--ignored", "--exact", name]);
}

#[test]
#[ignore = "one half of the test before it, which starts it: no test of its process comes after it"]
fn once_a_hook_panicked_memory_that_its_plugin_reads_is_not_freed() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let (reading, host_event) = lending::held(&one);
    let stream = Stream::new(&cpu).unwrap();
    stream.wait(&reading.record().unwrap()).unwrap();
    let sources = [9, 8].map(|byte| lending::filled(&cpu, byte));
    let addresses = sources.each_ref().map(Tensor::address);
    // The device reads between two events of the CPU's stream.
    let copies = sources
        .each_ref()
        .map(|source| source.to_on(&one, DIRECT, &stream).unwrap());
    // After that the CPU itself reads one of them there.
    let last = sources[1].to_on(&cpu, RouteChoice::Copy, &stream).unwrap();
    drop(sources);
    rig.control.inject("call:allocate@1=PANIC").unwrap();
    assert!(Tensor::empty(&one, &layout(16)).is_err());
    assert!(stream.synchronize(Some(LIMIT)).is_err());
    rig.runtime.wait_for_releases(Some(LIMIT)).unwrap();
    for address in addresses {
        let found = cpu.plugin().hooks().pointer_query(address).unwrap();
        assert_ne!(
            found.kind,
            MemoryKind::UNOWNED,
            "the copy may still read it"
        );
    }
    drop((copies, last, host_event));
}

#[test]
fn a_write_after_a_read_that_nobody_can_ask_about_is_refused() {
    let name = "once_a_hook_panicked_memory_that_its_plugin_reads_is_not_written";
    again("policy=lazy", &["--ignored", "--exact", name]);
}

#[test]
#[ignore = "one half of the test before it, which starts it: no test of its process comes after it"]
fn once_a_hook_panicked_memory_that_its_plugin_reads_is_not_written() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let (reading, host_event) = lending::held(&one);
    let (memory, other) = (lending::filled(&cpu, 9), lending::filled(&cpu, 8));
    let (copy, _) = memory.to_on(&one, DIRECT, &reading).unwrap();
    rig.control.inject("call:allocate@1=PANIC").unwrap();
    assert!(Tensor::empty(&one, &layout(16)).is_err());
    let stream = Stream::new(&cpu).unwrap();
    for written_on in [Some(&stream), None] {
        let refused = memory.copy_from(&other, written_on).unwrap_err();
        assert_eq!(refused.status(), Some(Status::PANIC), "{written_on:?}");
    }
    stream.synchronize(Some(LIMIT)).unwrap();
    assert!(memory.read().unwrap().iter().all(|byte| *byte == 9));
    drop((copy, host_event));
}

#[test]
fn a_host_event_that_nobody_can_complete_any_more_fails_for_every_plugin() {
    let rig = Simulated::new();
    let devices = ["cpu:0", "vpi:0", "vpi:1"].map(|name| rig.device(name));
    for of in &devices {
        for waiting in &devices {
            let host_event = Event::host(of).unwrap();
            let streams = [(); 2].map(|()| Stream::new(waiting).unwrap());
            for stream in &streams {
                stream.wait(&host_event).unwrap();
            }
            let copy = host_event.clone();
            drop(host_event);
            assert!(is_timeout(&streams[0].synchronize(Some(MOMENT))));
            drop(copy);
            for stream in &streams {
                let told = stream.synchronize(Some(LIMIT)).unwrap_err();
                assert_eq!(told.status(), Some(Status::VENDOR), "{of}, {waiting}");
            }
        }
    }
    rig.assert_clean();
}

#[test]
fn a_failure_that_was_told_is_told_again_while_other_work_stands_still() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let [tensor, source] = [1, 2].map(|byte| lending::filled(&one, byte));
    let (stream, host_event) = lending::held(&one);
    tensor.copy_from(&source, Some(&stream)).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    let told = || tensor.synchronize(Some(LIMIT)).unwrap_err().status();
    assert_eq!(told(), Some(Status::VENDOR));
    let (_other, host_event) = lending::held(&one);
    assert_eq!(told(), Some(Status::VENDOR));
    host_event.complete(Status::OK).unwrap();
}

#[test]
fn a_thread_that_waits_for_failed_work_needs_no_place_in_a_queue_afterwards() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let (first, host_event) = lending::held(&one);
    let (between, last) = (Stream::new(&cpu).unwrap(), Stream::new(&one).unwrap());
    rig.control
        .inject("call:stream_host_call@1=VENDOR")
        .unwrap();
    let chain = between.wait(&first.record().unwrap()).unwrap();
    assert_eq!(chain, WaitMethod::HostThread);
    rig.control.clear_faults();
    last.wait(&between.record().unwrap()).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    for stream in [&between, &last] {
        let told = stream.synchronize(Some(LIMIT)).unwrap_err();
        assert_eq!(told.status(), Some(Status::VENDOR));
    }
}

#[test]
fn memory_of_ours_that_came_back_outlives_the_producers_work() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let (stream, host_event) = lending::held(&one);
    let tensor = lending::filled(&cpu, 7);
    let managed = tensor.export().unwrap().into_raw();
    drop(tensor);
    // SAFETY: a live managed tensor that is handed over.
    let received = unsafe { Received::from_versioned(managed) }.unwrap();
    let back = Tensor::import(&rig.runtime, received).unwrap();
    back.ready_on(&stream).unwrap();
    let address = back.address();
    drop(back);
    let found = || cpu.plugin().hooks().pointer_query(address).unwrap().kind;
    assert!(is_timeout(&rig.runtime.wait_for_releases(Some(MOMENT))));
    assert_ne!(found(), MemoryKind::UNOWNED);
    host_event.complete(Status::OK).unwrap();
    rig.runtime.wait_for_releases(Some(LIMIT)).unwrap();
    assert_eq!(found(), MemoryKind::UNOWNED);
    rig.assert_clean();
}

/// Runs tests of this file in a process with these choices; `which` are arguments of the harness.
fn again(sim: &str, which: &[&str]) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(which)
        .env("CROSSDOCK_ASYNCHRONOUS", sim)
        .env(AGAIN, "1")
        .output()
        .unwrap();
    let text = [child.stdout, child.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        child.status.success() && !text.contains(" 0 passed"),
        "{sim}: {}\n{text}",
        child.status
    );
}

#[test]
fn all_of_this_holds_under_each_policy_and_with_one_queue() {
    if std::env::var_os(AGAIN).is_some() {
        return;
    }
    for sim in [
        "policy=threads;queues=1;delay_us=200",
        "policy=seeded;queues=2;seed=5",
        "policy=lazy;queues=1",
    ] {
        again(sim, &[]);
    }
}

/// Set in the processes that [`again`] starts.
const AGAIN: &str = "CROSSDOCK_TEST_AGAIN";

#[test]
fn a_wait_by_a_host_event_needs_one_queue_only() {
    again(
        "queues=1;standstill_ms=2000",
        &[
            "--ignored",
            "--exact",
            "with_one_queue_a_wait_by_a_host_event_ends",
        ],
    );
}

#[test]
#[ignore = "one half of the test before it, which starts it with one queue"]
fn with_one_queue_a_wait_by_a_host_event_ends() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let (first, second) = (Stream::new(&one).unwrap(), Stream::new(&one).unwrap());
    let event = first.record().unwrap();
    // A vendor that cannot chain two of its own streams, so that the host has to.
    let faults = "call:stream_wait_event@1=UNSUPPORTED";
    rig.control.inject(faults).unwrap();
    assert_eq!(second.wait(&event).unwrap(), WaitMethod::HostEvent);
    let waited = second.synchronize(Some(LIMIT / 2));
    assert!(waited.is_ok(), "{waited:?}: {:?}", rig.control.standstill());
    rig.assert_clean();
}
