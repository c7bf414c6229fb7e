//! Work on a memory: what replaces them, what they hold, and what is told of failures.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crossdock_sdk::abi::{Status, StreamHandle};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

use crate::copies::order::{self, Accesses};
use crate::error::Error;
use crate::hooks::waits;
use crate::streams::internal_stream::InternalStream;
use crate::streams::outstanding_work::{Access, Earlier, OutstandingWork, Unrecorded, Work};
use crate::test_plugins::test_plugin_streams::{self, Given, given};
use crate::{Device, Event, Runtime, Stream, Tensor};

const LIMIT: Duration = Duration::from_secs(1000);

/// A device of plugin `N`, and what the plugin gives.
fn device<const N: usize>() -> (Device, &'static Given) {
    let plugin = test_plugin_streams::plugin::<N>();
    let runtime = Runtime::builder().search(false).open().unwrap();
    assert!(runtime.register(&plugin).unwrap());
    (runtime.device_of(&plugin, 0).unwrap(), given::<N>())
}

fn work(stream: Option<&Stream>, event: &Event, access: Access) -> Work {
    Work {
        stream: stream.cloned(),
        end: Ok(event.clone()),
        access,
        holds_memory: true,
        unrecorded_on: None,
        after: Vec::new(),
    }
}

fn readiness(stream: &Stream, event: &Event) -> Work {
    Work {
        holds_memory: false,
        unrecorded_on: None,
        ..work(Some(stream), event, Access::Write)
    }
}

/// As what other work certainly comes after.
fn after(event: &Event) -> [Earlier; 1] {
    [Earlier {
        event: event.clone(),
        is_certain: true,
    }]
}

fn events<const COUNT: usize>(device: &Device) -> [Event; COUNT] {
    std::array::from_fn(|_| Event::create(device).unwrap())
}

/// The ends of all works, the oldest first.
fn ends(outstanding: &OutstandingWork) -> Vec<Event> {
    let works = outstanding.before(Access::Both).into_iter();
    works.map(|work| work.end.unwrap()).collect()
}

fn holds(outstanding: &OutstandingWork) -> Vec<bool> {
    let works = outstanding.before(Access::Both).into_iter();
    works.map(|work| work.holds_memory).collect()
}

fn status<T>(result: &Result<T, Error>) -> Option<Status> {
    result.as_ref().err().and_then(Error::status)
}

#[test]
fn work_replaces_what_is_of_its_kind_on_its_stream_and_nothing_else() {
    let (device, _) = device::<24>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [a, b, c, d, e, f] = events(&device);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&one), &a, Access::Read), &[]);
    outstanding.enter(work(Some(&one), &b, Access::Read), &after(&a));
    let left = ends(&outstanding);
    assert!(left.len() == 1 && left.contains(&b), "it comes later there");
    outstanding.enter(work(Some(&other), &c, Access::Read), &[]);
    outstanding.enter(work(Some(&one), &d, Access::Write), &[]);
    assert_eq!(ends(&outstanding), [b.clone(), c.clone(), d.clone()]);
    outstanding.enter(work(None, &e, Access::Write), &[]);
    outstanding.enter(work(None, &f, Access::Write), &[]);
    assert_eq!(
        ends(&outstanding),
        [b, c, d, e, f],
        "nothing comes later there"
    );
}

#[test]
fn a_read_replaces_no_read_on_another_stream_or_on_none() {
    let (device, _) = device::<44>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [a, b, c, d] = events(&device);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&one), &a, Access::Read), &[]);
    outstanding.enter(work(Some(&other), &b, Access::Read), &after(&a));
    outstanding.enter(work(None, &c, Access::Read), &after(&b));
    outstanding.enter(work(None, &d, Access::Read), &after(&c));
    assert_eq!(ends(&outstanding), [a, b, c, d]);
}

#[test]
fn an_event_is_given_back_while_others_look_for_work() {
    let (device, given) = device::<48>();
    let outstanding = Arc::new(OutstandingWork::default());
    let [over, next] = events(&device);
    assert!(over.is_done().unwrap());
    outstanding.enter(work(None, &over, Access::Read), &[]);
    drop(over);
    let looks = Arc::clone(&outstanding);
    let (step, is_done) = test_plugin_streams::meanwhile(move || drop(looks.before(Access::Both)));
    *given.in_event_destroy.lock().unwrap() = Some(step);
    outstanding.enter(work(None, &next, Access::Read), &[]);
    assert!(is_done.load(SeqCst));
}

#[test]
fn reads_that_are_over_do_not_pile_up() {
    let (device, _) = device::<45>();
    let outstanding = OutstandingWork::default();
    for _ in 0..500 {
        let (stream, [read]) = (Stream::new(&device).unwrap(), events(&device));
        outstanding.enter(work(Some(&stream), &read, Access::Read), &[]);
    }
    assert!(ends(&outstanding).len() < 100);
}

#[test]
fn a_write_replaces_what_it_waited_for_and_a_read_does_not() {
    let (device, _) = device::<25>();
    let [one, other, third] = [(); 3].map(|()| Stream::new(&device).unwrap());
    let [a, b, c] = events(&device);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&one), &a, Access::Write), &[]);
    outstanding.enter(work(Some(&other), &b, Access::Read), &after(&a));
    assert_eq!(ends(&outstanding), [a.clone(), b.clone()]);
    outstanding.enter(work(Some(&third), &c, Access::Write), &after(&a));
    assert_eq!(
        ends(&outstanding),
        [b, c],
        "a read that came meanwhile stays"
    );
}

#[test]
fn work_that_is_known_to_be_over_is_replaced_and_was_no_last_write() {
    let (device, _) = device::<26>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [written, read, next] = events(&device);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&one), &written, Access::Write), &[]);
    outstanding.enter(work(Some(&other), &read, Access::Read), &[]);
    assert_eq!(
        outstanding.last_write().unwrap(),
        Some(written.clone()),
        "reads are none"
    );
    assert!(written.is_done().unwrap());
    assert_eq!(outstanding.last_write().unwrap(), None);
    outstanding.enter(work(Some(&one), &next, Access::Read), &[]);
    assert_eq!(ends(&outstanding), [read, next]);
}

#[test]
fn readiness_holds_memory_only_behind_work_on_its_stream_that_does() {
    let (device, _) = device::<27>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [a, b, c, d] = events(&device);
    let outstanding = OutstandingWork::default();
    outstanding.enter(readiness(&one, &a), &[]);
    outstanding.enter(readiness(&one, &b), &after(&a));
    assert_eq!(holds(&outstanding), [false], "nothing there held it");
    outstanding.enter(work(Some(&one), &c, Access::Write), &after(&b));
    assert!(c.is_done().unwrap());
    outstanding.enter(readiness(&other, &d), &[]);
    assert_eq!(holds(&outstanding), [false], "what held it is over");
}

#[test]
fn who_waits_takes_the_marks_out_and_only_those_that_mattered() {
    let (device, _) = device::<28>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [read, written] = events(&device);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&one), &read, Access::Read), &[]);
    outstanding.enter(work(Some(&other), &written, Access::Write), &[]);
    outstanding.synchronize(Access::Read, None).unwrap();
    assert!(outstanding.is_busy(), "the read may be running");
    assert_eq!(ends(&outstanding), [read]);
    outstanding.synchronize(Access::Write, None).unwrap();
    assert!(!outstanding.is_busy());
}

#[test]
fn a_failed_write_is_told_to_each_reader_until_somebody_writes_again() {
    let (device, given) = device::<29>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [first, second] = events(&device);
    given.end(first.handle(), Status::VENDOR);
    given.end(second.handle(), Status::OOM_DEVICE);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&one), &first, Access::Write), &[]);
    outstanding.enter(work(Some(&other), &second, Access::Write), &[]);
    for access in [Access::Read, Access::Both, Access::Read] {
        let told = outstanding.synchronize(access, None);
        assert_eq!(status(&told), Some(Status::VENDOR), "the first failure");
    }
    let failed = outstanding.synchronize(Access::Write, None).unwrap();
    assert_eq!(failed, [first, second]);
    let told = outstanding.synchronize(Access::Read, None);
    assert_eq!(status(&told), Some(Status::VENDOR), "it may be refused");
    outstanding.replace(&failed);
    outstanding.synchronize(Access::Read, None).unwrap();
    assert!(!outstanding.is_busy());
}

#[test]
fn a_failed_read_is_told_to_nobody_and_forgotten() {
    let (device, given) = device::<30>();
    let stream = Stream::new(&device).unwrap();
    let outstanding = OutstandingWork::default();
    // A limit that nobody set cannot have passed.
    for (limit, status) in [
        (None, Status::VENDOR),
        (Some(LIMIT), Status::VENDOR),
        (None, Status::TIMEOUT),
    ] {
        let [read] = events(&device);
        given.end(read.handle(), status);
        // The stream of ours that comes after the read hears of the failure too, once.
        given.failed.store(read.handle().raw() + 1, SeqCst);
        outstanding.enter(work(Some(&stream), &read, Access::Read), &[]);
        outstanding.synchronize(Access::Both, limit).unwrap();
        assert!(!outstanding.is_busy(), "{limit:?} {status}");
    }
}

#[test]
fn a_limit_that_passed_is_told_and_the_work_stays() {
    let (device, given) = device::<37>();
    let stream = Stream::new(&device).unwrap();
    let [read] = events(&device);
    given.end(read.handle(), Status::TIMEOUT);
    let outstanding = OutstandingWork::default();
    outstanding.enter(work(Some(&stream), &read, Access::Read), &[]);
    let told = outstanding.synchronize(Access::Both, Some(LIMIT));
    assert_eq!(status(&told), Some(Status::TIMEOUT));
    assert_eq!(ends(&outstanding), [read]);
}

#[test]
fn much_work_on_one_stream_leaves_one_mark() {
    let (device, _) = device::<36>();
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    let [target, source] = [(); 2].map(|()| Tensor::empty(&device, &layout).unwrap());
    let stream = Stream::new(&device).unwrap();
    for _ in 0..3 {
        target.copy_from(&source, Some(&stream)).unwrap();
    }
    for tensor in [target, source] {
        assert_eq!(ends(tensor.memory().outstanding()).len(), 1);
    }
}

#[test]
fn named_work_on_one_stream_leaves_one_mark_of_each_kind() {
    let (device, _) = device::<49>();
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    let tensor = Tensor::empty(&device, &layout).unwrap();
    let stream = Stream::new(&device).unwrap();
    for _ in 0..3 {
        tensor.used_on(&stream).unwrap();
    }
    assert_eq!(ends(tensor.memory().outstanding()).len(), 1);
    for _ in 0..3 {
        tensor.written_on(&stream).unwrap();
    }
    assert_eq!(ends(tensor.memory().outstanding()).len(), 2);
}

#[test]
fn a_limit_is_for_all_marks_together() {
    let (device, given) = device::<31>();
    let streams = [(); 3].map(|()| Stream::new(&device).unwrap());
    let outstanding = OutstandingWork::default();
    for stream in &streams {
        let [event] = events(&device);
        outstanding.enter(work(Some(stream), &event, Access::Write), &[]);
    }
    // One slice, so that the plugin hears all of what is left; none is, where the machine is busy.
    let limit = waits::FIRST;
    outstanding.synchronize(Access::Read, Some(limit)).unwrap();
    let asked = given.limits.lock().unwrap();
    let limit = u64::try_from(limit.as_nanos()).unwrap();
    assert!(asked.len() == 3 && asked.is_sorted_by(|one, next| one > next || *next == 0));
    assert!(asked.iter().all(|asked| *asked <= limit), "{asked:?}");
}

#[test]
fn a_write_of_which_nobody_can_tell_when_it_is_over_is_told_as_such() {
    let (device, _) = device::<51>();
    let [read, written] = events(&device);
    let why = Error::misuse("record an event", "a reason");
    let unknown = Work {
        end: Err(Unrecorded::new(&why)),
        ..work(None, &read, Access::Write)
    };
    let outstanding = OutstandingWork::default();
    outstanding.enter(unknown, &[]);
    outstanding.enter(work(None, &written, Access::Write), &[]);
    let told = outstanding.last_write().unwrap_err();
    assert!(told.why().contains("a reason"), "{told}");
}

#[test]
fn no_stream_waits_for_work_on_others_for_memory_that_it_cannot_free() {
    let (device, given) = device::<52>();
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    let tensor = Tensor::empty(&device, &layout).unwrap();
    let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
    for stream in &streams {
        tensor.used_on(stream).unwrap();
    }
    for event in ends(tensor.memory().outstanding()) {
        given.end(event.handle(), Status::NOT_READY);
    }
    drop(tensor);
    let waiting = given.waiting.lock().unwrap().clone();
    let natives = streams.map(|stream| stream.native_handle().unwrap());
    assert!(natives.iter().all(|native| !waiting.contains(native)));
    assert!(!waiting.is_empty(), "one of ours does");
}

#[test]
fn a_tensor_tells_for_debugging_where_its_memory_is() {
    let (device, _) = device::<53>();
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    let tensor = Tensor::empty(&device, &layout).unwrap();
    let address = format!("{:?}", tensor.memory().address);
    assert!(format!("{tensor:?}").contains(&address));
}

#[test]
fn a_failure_that_another_thread_is_told_meanwhile_is_not_lost() {
    let (device, given) = device::<43>();
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    let [source, whole] = [(); 2].map(|()| Tensor::empty(&device, &layout).unwrap());
    let part = whole.slice(&[AxisSlice {
        start: 0,
        step: 1,
        len: 4,
    }]);
    let part = part.unwrap();
    let stream = Stream::new(&device).unwrap();
    let failing = [Accesses::copy(&whole, &source), Accesses::writes(&part)];
    for (accesses, written) in failing.into_iter().zip([&source, &whole]) {
        let [event] = events(&device);
        given.end(event.handle(), Status::NOT_READY);
        let outstanding = written.memory().outstanding();
        outstanding.enter(work(Some(&stream), &event, Access::Write), &[]);
        order::run(&device, Some(&stream), accesses, |handle| {
            given.end(event.handle(), Status::VENDOR);
            given.failed.store(handle.raw(), SeqCst);
            assert!(stream.synchronize(None).is_err());
            Ok(())
        })
        .unwrap();
        let told = whole.synchronize(None);
        assert_eq!(status(&told), Some(Status::VENDOR));
        whole
            .memory()
            .outstanding()
            .replace(&ends(whole.memory().outstanding()));
    }
}

/// Work on a stream of ours whose end could not be recorded, in so many memories.
fn unrecorded<const COUNT: usize>(device: &Device) -> ([OutstandingWork; COUNT], StreamHandle) {
    let stream = Arc::new(InternalStream::take(device).unwrap());
    stream.note_unrecorded();
    let why = Unrecorded::new(&Error::misuse("record an event", "a reason"));
    let memories = std::array::from_fn(|_| {
        let outstanding = OutstandingWork::default();
        let entry = Work {
            stream: None,
            end: Err(Arc::clone(&why)),
            access: Access::Write,
            holds_memory: true,
            unrecorded_on: Some(Arc::clone(&stream)),
            after: Vec::new(),
        };
        outstanding.enter(entry, &[]);
        outstanding
    });
    (memories, stream.handle())
}

#[test]
fn work_whose_end_is_recorded_later_has_one_end_for_all_its_memories() {
    let (device, _) = device::<72>();
    let ([one, other], _) = unrecorded(&device);
    let (of_one, of_other) = std::thread::scope(|scope| {
        let of_one = scope.spawn(|| ends(&one));
        let of_other = ends(&other);
        (of_one.join().unwrap(), of_other)
    });
    assert!(
        of_one.len() == 1 && of_one == of_other,
        "{of_one:?} {of_other:?}"
    );
}

#[test]
fn a_failure_that_a_wait_for_the_device_took_is_told_to_readers() {
    let (device, given) = device::<76>();
    let ([written], stream) = unrecorded(&device);
    given.failed.store(stream.raw(), SeqCst);
    device.synchronize(None).unwrap();
    assert_eq!(given.failed.load(SeqCst), 0, "the plugin has told of it");
    let read = written.synchronize(Access::Read, Some(LIMIT));
    assert!(read.unwrap_err().why().contains("a reason"));
}
