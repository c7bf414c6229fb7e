//! Marks of work: what replaces them, what they hold, and what is told of failures.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

use crate::copies::order::{self, Touched};
use crate::error::Error;
use crate::hooks::waits;
use crate::streams::pending::{Access, Earlier, Mark, Pending};
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

fn mark(stream: Option<&Stream>, event: &Event, access: Access) -> Mark {
    Mark {
        stream: stream.cloned(),
        end: Ok(event.clone()),
        access,
        holds_memory: true,
        after: Vec::new(),
    }
}

fn readiness(stream: &Stream, event: &Event) -> Mark {
    Mark {
        holds_memory: false,
        ..mark(Some(stream), event, Access::Write)
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

/// The ends of all marks, the oldest first.
fn ends(pending: &Pending) -> Vec<Event> {
    let marks = pending.before(Access::Both).into_iter();
    marks.map(|mark| mark.end.unwrap()).collect()
}

fn holds(pending: &Pending) -> Vec<bool> {
    let marks = pending.before(Access::Both).into_iter();
    marks.map(|mark| mark.holds_memory).collect()
}

fn status<T>(result: &Result<T, Error>) -> Option<Status> {
    result.as_ref().err().and_then(Error::status)
}

#[test]
fn work_replaces_what_is_of_its_kind_on_its_stream_and_nothing_else() {
    let (device, _) = device::<24>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [a, b, c, d, e, f] = events(&device);
    let pending = Pending::default();
    pending.enter(mark(Some(&one), &a, Access::Read), &[]);
    pending.enter(mark(Some(&one), &b, Access::Read), &after(&a));
    let left = ends(&pending);
    assert!(left.len() == 1 && left.contains(&b), "it comes later there");
    pending.enter(mark(Some(&other), &c, Access::Read), &[]);
    pending.enter(mark(Some(&one), &d, Access::Write), &[]);
    assert_eq!(ends(&pending), [b.clone(), c.clone(), d.clone()]);
    pending.enter(mark(None, &e, Access::Write), &[]);
    pending.enter(mark(None, &f, Access::Write), &[]);
    assert_eq!(ends(&pending), [b, c, d, e, f], "nothing comes later there");
}

#[test]
fn a_read_replaces_no_read_on_another_stream_or_on_none() {
    let (device, _) = device::<44>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [a, b, c, d] = events(&device);
    let pending = Pending::default();
    pending.enter(mark(Some(&one), &a, Access::Read), &[]);
    pending.enter(mark(Some(&other), &b, Access::Read), &after(&a));
    pending.enter(mark(None, &c, Access::Read), &after(&b));
    pending.enter(mark(None, &d, Access::Read), &after(&c));
    assert_eq!(ends(&pending), [a, b, c, d]);
}

#[test]
fn an_event_is_given_back_while_others_look_for_work() {
    let (device, given) = device::<48>();
    let pending = Arc::new(Pending::default());
    let [over, next] = events(&device);
    assert!(over.is_done().unwrap());
    pending.enter(mark(None, &over, Access::Read), &[]);
    drop(over);
    let looks = Arc::clone(&pending);
    let (step, is_done) = test_plugin_streams::meanwhile(move || drop(looks.before(Access::Both)));
    *given.in_event_destroy.lock().unwrap() = Some(step);
    pending.enter(mark(None, &next, Access::Read), &[]);
    assert!(is_done.load(SeqCst));
}

#[test]
fn reads_that_are_over_do_not_pile_up() {
    let (device, _) = device::<45>();
    let pending = Pending::default();
    for _ in 0..500 {
        let (stream, [read]) = (Stream::new(&device).unwrap(), events(&device));
        pending.enter(mark(Some(&stream), &read, Access::Read), &[]);
    }
    assert!(ends(&pending).len() < 100);
}

#[test]
fn a_write_replaces_what_it_waited_for_and_a_read_does_not() {
    let (device, _) = device::<25>();
    let [one, other, third] = [(); 3].map(|()| Stream::new(&device).unwrap());
    let [a, b, c] = events(&device);
    let pending = Pending::default();
    pending.enter(mark(Some(&one), &a, Access::Write), &[]);
    pending.enter(mark(Some(&other), &b, Access::Read), &after(&a));
    assert_eq!(ends(&pending), [a.clone(), b.clone()]);
    pending.enter(mark(Some(&third), &c, Access::Write), &after(&a));
    assert_eq!(ends(&pending), [b, c], "a read that came meanwhile stays");
}

#[test]
fn work_that_is_known_to_be_over_is_replaced_and_was_no_last_write() {
    let (device, _) = device::<26>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [written, read, next] = events(&device);
    let pending = Pending::default();
    pending.enter(mark(Some(&one), &written, Access::Write), &[]);
    pending.enter(mark(Some(&other), &read, Access::Read), &[]);
    assert_eq!(
        pending.last_write().unwrap(),
        Some(written.clone()),
        "reads are none"
    );
    assert!(written.is_done().unwrap());
    assert_eq!(pending.last_write().unwrap(), None);
    pending.enter(mark(Some(&one), &next, Access::Read), &[]);
    assert_eq!(ends(&pending), [read, next]);
}

#[test]
fn readiness_holds_memory_only_behind_work_on_its_stream_that_does() {
    let (device, _) = device::<27>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [a, b, c, d] = events(&device);
    let pending = Pending::default();
    pending.enter(readiness(&one, &a), &[]);
    pending.enter(readiness(&one, &b), &after(&a));
    assert_eq!(holds(&pending), [false], "nothing there held it");
    pending.enter(mark(Some(&one), &c, Access::Write), &after(&b));
    assert!(c.is_done().unwrap());
    pending.enter(readiness(&other, &d), &[]);
    assert_eq!(holds(&pending), [false], "what held it is over");
}

#[test]
fn who_waits_takes_the_marks_out_and_only_those_that_mattered() {
    let (device, _) = device::<28>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [read, written] = events(&device);
    let pending = Pending::default();
    pending.enter(mark(Some(&one), &read, Access::Read), &[]);
    pending.enter(mark(Some(&other), &written, Access::Write), &[]);
    pending.synchronize(Access::Read, None).unwrap();
    assert!(pending.is_busy(), "the read may be running");
    assert_eq!(ends(&pending), [read]);
    pending.synchronize(Access::Write, None).unwrap();
    assert!(!pending.is_busy());
}

#[test]
fn a_failed_write_is_told_to_each_reader_until_somebody_writes_again() {
    let (device, given) = device::<29>();
    let [one, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [first, second] = events(&device);
    given.end(first.handle(), Status::VENDOR);
    given.end(second.handle(), Status::OOM_DEVICE);
    let pending = Pending::default();
    pending.enter(mark(Some(&one), &first, Access::Write), &[]);
    pending.enter(mark(Some(&other), &second, Access::Write), &[]);
    for access in [Access::Read, Access::Both, Access::Read] {
        let told = pending.synchronize(access, None);
        assert_eq!(status(&told), Some(Status::VENDOR), "the first failure");
    }
    let failed = pending.synchronize(Access::Write, None).unwrap();
    assert_eq!(failed, [first, second]);
    let told = pending.synchronize(Access::Read, None);
    assert_eq!(status(&told), Some(Status::VENDOR), "it may be refused");
    pending.replace(&failed);
    pending.synchronize(Access::Read, None).unwrap();
    assert!(!pending.is_busy());
}

#[test]
fn a_failed_read_is_told_to_nobody_and_forgotten() {
    let (device, given) = device::<30>();
    let stream = Stream::new(&device).unwrap();
    let pending = Pending::default();
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
        pending.enter(mark(Some(&stream), &read, Access::Read), &[]);
        pending.synchronize(Access::Both, limit).unwrap();
        assert!(!pending.is_busy(), "{limit:?} {status}");
    }
}

#[test]
fn a_limit_that_passed_is_told_and_the_work_stays() {
    let (device, given) = device::<37>();
    let stream = Stream::new(&device).unwrap();
    let [read] = events(&device);
    given.end(read.handle(), Status::TIMEOUT);
    let pending = Pending::default();
    pending.enter(mark(Some(&stream), &read, Access::Read), &[]);
    let told = pending.synchronize(Access::Both, Some(LIMIT));
    assert_eq!(status(&told), Some(Status::TIMEOUT));
    assert_eq!(ends(&pending), [read]);
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
        assert_eq!(ends(tensor.memory().pending()).len(), 1);
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
    assert_eq!(ends(tensor.memory().pending()).len(), 1);
    for _ in 0..3 {
        tensor.written_on(&stream).unwrap();
    }
    assert_eq!(ends(tensor.memory().pending()).len(), 2);
}

#[test]
fn a_limit_is_for_all_marks_together() {
    let (device, given) = device::<31>();
    let streams = [(); 3].map(|()| Stream::new(&device).unwrap());
    let pending = Pending::default();
    for stream in &streams {
        let [event] = events(&device);
        pending.enter(mark(Some(stream), &event, Access::Write), &[]);
    }
    // One slice, so that the plugin hears all of what is left; none is, where the machine is busy.
    let limit = waits::FIRST;
    pending.synchronize(Access::Read, Some(limit)).unwrap();
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
    let unknown = Mark {
        end: Err(Arc::new(why)),
        ..mark(None, &read, Access::Write)
    };
    let pending = Pending::default();
    pending.enter(unknown, &[]);
    pending.enter(mark(None, &written, Access::Write), &[]);
    let told = pending.last_write().unwrap_err();
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
    for event in ends(tensor.memory().pending()) {
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
    let failing = [Touched::copy(&whole, &source), Touched::writes(&part)];
    for (touched, written) in failing.into_iter().zip([&source, &whole]) {
        let [event] = events(&device);
        given.end(event.handle(), Status::NOT_READY);
        let pending = written.memory().pending();
        pending.enter(mark(Some(&stream), &event, Access::Write), &[]);
        order::run(&device, Some(&stream), touched, |handle| {
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
            .pending()
            .replace(&ends(whole.memory().pending()));
    }
}
