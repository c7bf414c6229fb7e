//! Memory that is dropped while work uses it: given back once the work is known to be over, and
//! never before.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]
#![expect(unsafe_code, reason = "looks into memory past its plugin")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crossdock::{
    CostCache, Device, Event, RouteChoice, RouteKind, Runtime, Stream, Tensor, counted_leaks,
};
use crossdock_e2e::lending::{held, lent_with, writable};
use crossdock_e2e::with_faults;
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
const MOMENT: Duration = Duration::from_millis(50);
const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);

fn runtime() -> Runtime {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    builder.open().unwrap()
}

fn cpu(runtime: &Runtime) -> Device {
    runtime.device("cpu:0".parse().unwrap()).unwrap()
}

fn layout() -> Layout {
    Layout::compact(Dtype::UINT8, &[1 << 16]).unwrap()
}

/// A copy of a lent tensor that is held, and the tensor dropped.
struct Copying {
    runtime: Runtime,
    copy: Tensor,
    host_event: Event,
    is_back: Arc<AtomicBool>,
}

impl Copying {
    fn begin() -> Self {
        let runtime = runtime();
        let (source, is_back) = lent_with(&runtime, 1 << 16, None);
        let (stream, host_event) = held(&cpu(&runtime));
        let (copy, _) = source.to_on(&cpu(&runtime), DIRECT, &stream).unwrap();
        drop(source);
        Self {
            runtime,
            copy,
            host_event,
            is_back,
        }
    }

    fn is_back(&self) -> bool {
        self.is_back.load(Ordering::SeqCst)
    }

    /// Whether the tensor is given back within a moment.
    fn is_soon_back(&self) -> bool {
        let waited = self.runtime.wait_for_releases(Some(MOMENT));
        waited.is_ok() && self.is_back()
    }

    fn finish(&self) {
        self.host_event.complete(Status::OK).unwrap();
        self.runtime.wait_for_releases(LIMIT).unwrap();
    }
}

#[test]
fn lent_memory_is_given_back_when_the_copy_is_over_and_one_can_wait_for_that() {
    let copying = Copying::begin();
    let early = copying.runtime.wait_for_releases(Some(MOMENT)).unwrap_err();
    assert_eq!(early.status(), Some(Status::TIMEOUT), "{early}");
    assert!(!copying.is_back());
    copying.finish();
    assert!(copying.is_back());
    assert_eq!(copying.copy.read().unwrap(), vec![7; 1 << 16]);
}

#[test]
fn memory_that_a_stream_is_to_free_is_waited_for_also_when_that_stream_was_dropped() {
    for outcome in [Status::OK, Status::VENDOR] {
        for keeps_stream in [true, false] {
            let runtime = runtime();
            let (stream, host_event) = held(&cpu(&runtime));
            let tensor = Tensor::empty(&cpu(&runtime), &layout()).unwrap();
            tensor.fill(&[3], Some(&stream)).unwrap();
            drop(tensor);
            let kept = keeps_stream.then_some(stream);
            for _ in 0..2 {
                let early = runtime.wait_for_releases(Some(MOMENT)).unwrap_err();
                assert_eq!(early.status(), Some(Status::TIMEOUT), "{early}");
            }
            host_event.complete(outcome).unwrap();
            runtime.wait_for_releases(LIMIT).unwrap();
            let told = kept.map(|stream| stream.synchronize(LIMIT).err().and_then(|e| e.status()));
            let failure = (!outcome.is_ok()).then_some(outcome);
            assert!(
                told.is_none_or(|told| told == failure),
                "told once: {told:?}"
            );
        }
    }
}

#[test]
fn what_a_stream_is_to_free_after_somebody_waited_is_waited_for_too() {
    let runtime = runtime();
    let stream = Stream::new(&cpu(&runtime)).unwrap();
    for _ in 0..2 {
        let host_event = Event::host(&cpu(&runtime)).unwrap();
        stream.wait(&host_event).unwrap();
        let tensor = Tensor::empty(&cpu(&runtime), &layout()).unwrap();
        tensor.fill(&[3], Some(&stream)).unwrap();
        drop(tensor);
        let early = runtime.wait_for_releases(Some(MOMENT)).unwrap_err();
        assert_eq!(early.status(), Some(Status::TIMEOUT), "{early}");
        host_event.complete(Status::OK).unwrap();
        runtime.wait_for_releases(LIMIT).unwrap();
    }
}

/// Bytes with a tensor that ends with them.
struct Owning {
    bytes: Vec<u8>,
    tensor: Option<Tensor>,
    has_ended: Sender<()>,
}

impl AsRef<[u8]> for Owning {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Owning {
    fn drop(&mut self) {
        drop(self.tensor.take());
        self.has_ended.send(()).unwrap();
    }
}

#[test]
fn what_a_deleter_leaves_a_stream_to_free_is_waited_for_by_those_who_wait_already() {
    for another_free_came_first in [false, true] {
        let runtime = runtime();
        let cpu = cpu(&runtime);
        let (last, end) = held(&cpu);
        let filled_on_last = || {
            let tensor = Tensor::empty(&cpu, &layout()).unwrap();
            tensor.fill(&[3], Some(&last)).unwrap();
            tensor
        };
        let (has_ended, ended) = channel();
        let owner = Owning {
            bytes: vec![7; 1 << 16],
            tensor: Some(filled_on_last()),
            has_ended,
        };
        let source = Tensor::from_host_memory(&runtime, Box::new(owner), 0, &layout()).unwrap();
        let (stream, host_event) = held(&cpu);
        let copied = source.to_on(&cpu, DIRECT, &stream).unwrap();
        drop(source);

        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                runtime.wait_for_releases(LIMIT).unwrap();
                assert!(
                    is_over.load(Ordering::SeqCst),
                    "the stream had not freed it"
                );
            });
            // Long enough for the waiter to begin.
            let early = runtime.wait_for_releases(Some(MOMENT)).unwrap_err();
            assert_eq!(early.status(), Some(Status::TIMEOUT), "{early}");
            if another_free_came_first {
                drop(filled_on_last());
            }
            host_event.complete(Status::OK).unwrap();
            ended.recv().unwrap();
            is_over.store(true, Ordering::SeqCst);
            end.complete(Status::OK).unwrap();
            waiter.join().unwrap();
        });
        drop(copied);
    }
}

#[test]
fn lent_memory_stays_while_no_question_about_its_copy_is_answered() {
    let name = "lent_memory_stays_while_no_question_about_its_copy_is_answered";
    let faults = "cpu.stream_host_call:*=VENDOR,cpu.event_query:*=VENDOR,\
                  cpu.event_synchronize:*=VENDOR";
    if with_faults(name, faults) {
        let copying = Copying::begin();
        assert!(!copying.is_soon_back());
        copying.finish();
        assert!(copying.is_back(), "a stream of ours went past the copy");
    }
}

#[test]
fn lent_memory_is_leaked_where_nobody_can_say_whether_its_copy_is_over() {
    let name = "lent_memory_is_leaked_where_nobody_can_say_whether_its_copy_is_over";
    let faults = "cpu.stream_host_call:*=VENDOR,cpu.event_query:*=VENDOR,\
                  cpu.event_synchronize:*=VENDOR,cpu.stream_synchronize:*=VENDOR,\
                  cpu.stream_query:*=VENDOR";
    if with_faults(name, faults) {
        let copying = Copying::begin();
        copying.runtime.wait_for_releases(LIMIT).unwrap();
        assert!(!copying.is_back() && counted_leaks() == 1);
        copying.finish();
        assert!(!copying.is_back() && counted_leaks() == 1);
    }
}

#[test]
fn lent_memory_is_leaked_where_a_hook_panicked_while_it_was_copied() {
    let name = "lent_memory_is_leaked_where_a_hook_panicked_while_it_was_copied";
    if with_faults(name, "cpu.memory_info:*=PANIC") {
        let runtime = runtime();
        let (source, is_back) = lent_with(&runtime, 1 << 16, None);
        let (stream, host_event) = held(&cpu(&runtime));
        let copied = source.to_on(&cpu(&runtime), DIRECT, &stream).unwrap();
        assert!(cpu(&runtime).memory().is_err());
        drop(source);
        runtime.wait_for_releases(LIMIT).unwrap();
        assert!(!is_back.load(Ordering::SeqCst) && counted_leaks() > 0);
        drop((host_event, stream, copied));
    }
}

#[test]
fn lent_memory_whose_copy_panicked_is_leaked_and_can_be_used_no_more() {
    let name = "lent_memory_whose_copy_panicked_is_leaked_and_can_be_used_no_more";
    if with_faults(name, "cpu.copy:*=PANIC") {
        let runtime = runtime();
        let (source, is_back) = lent_with(&runtime, 1 << 16, None);
        let device = cpu(&runtime);
        let copied = source.to_on(&device, DIRECT, &Stream::new(&device).unwrap());
        assert_eq!(copied.map(drop).unwrap_err().status(), Some(Status::PANIC));
        assert!(source.synchronize(LIMIT).is_err());
        drop(source);
        assert!(!is_back.load(Ordering::SeqCst) && counted_leaks() > 0);
    }
}

#[test]
fn a_write_on_a_stream_comes_after_a_read_that_no_question_is_answered_about() {
    let name = "a_write_on_a_stream_comes_after_a_read_that_no_question_is_answered_about";
    if with_faults(name, "cpu.event_query:*=VENDOR") {
        let runtime = runtime();
        let device = cpu(&runtime);
        let source = Tensor::from_bytes(&device, &layout(), &[7; 1 << 16]).unwrap();
        let next = Tensor::from_bytes(&device, &layout(), &[9; 1 << 16]).unwrap();
        let (reading, host_event) = held(&device);
        let (copy, _) = source.to_on(&device, DIRECT, &reading).unwrap();
        let writing = Stream::new(&device).unwrap();
        source.copy_from(&next, Some(&writing)).unwrap();
        let done = writing.synchronize(Some(MOMENT));
        assert_eq!(done.unwrap_err().status(), Some(Status::TIMEOUT));
        host_event.complete(Status::OK).unwrap();
        assert_eq!(copy.read().unwrap(), [7; 1 << 16]);
        assert_eq!(source.read().unwrap(), [9; 1 << 16]);
    }
}

#[test]
fn a_write_comes_after_a_read_that_no_question_is_answered_about() {
    let name = "a_write_comes_after_a_read_that_no_question_is_answered_about";
    if with_faults(name, "cpu.event_synchronize:*=VENDOR") {
        let runtime = runtime();
        let device = cpu(&runtime);
        let source = Tensor::from_bytes(&device, &layout(), &[7; 1 << 16]).unwrap();
        let (reading, host_event) = held(&device);
        let (copy, _) = source.to_on(&device, DIRECT, &reading).unwrap();
        let (to, written) = channel();
        let writing = source.clone();
        let thread = std::thread::spawn(move || to.send(writing.write(&[9; 1 << 16])));
        assert!(written.recv_timeout(MOMENT).is_err(), "it waits");
        host_event.complete(Status::OK).unwrap();
        written.recv_timeout(LIMIT.unwrap()).unwrap().unwrap();
        thread.join().unwrap().unwrap();
        reading.synchronize(LIMIT).unwrap();
        assert_eq!(first_byte(&copy), 7, "read before it was written");
    }
}

/// The first byte of a tensor on the CPU, read past its plugin.
fn first_byte(tensor: &Tensor) -> u8 {
    let address = tensor.address().as_pointer().unwrap();
    let byte = std::ptr::with_exposed_provenance::<u8>(usize::try_from(address).unwrap());
    // SAFETY: the tensor is alive and not empty, and the work on it is over.
    unsafe { byte.read() }
}

#[test]
fn memory_whose_work_is_over_is_given_back_at_once() {
    let runtime = runtime();
    let device = cpu(&runtime);
    let (source, is_back) = lent_with(&runtime, 1 << 16, None);
    let stream = Stream::new(&device).unwrap();
    let (copy, _) = source.to_on(&device, DIRECT, &stream).unwrap();
    stream.synchronize(LIMIT).unwrap();
    drop(source);
    assert!(is_back.load(Ordering::SeqCst), "before the drop returns");
    drop(copy);
}

#[test]
fn readiness_of_a_producers_work_holds_no_release_up() {
    let runtime = runtime();
    let (source, is_back) = lent_with(&runtime, 1 << 16, None);
    let (stream, host_event) = held(&cpu(&runtime));
    source.ready_on(&stream).unwrap();
    assert!(source.ready().unwrap().is_some(), "who uses it waits");
    drop(source);
    assert!(is_back.load(Ordering::SeqCst));
    host_event.complete(Status::OK).unwrap();
}

#[test]
fn a_read_behind_the_producers_work_holds_the_release_up() {
    let runtime = runtime();
    let device = cpu(&runtime);
    let (source, is_back) = lent_with(&runtime, 1 << 16, None);
    let (producing, host_event) = held(&device);
    source.ready_on(&producing).unwrap();
    let (copy, _) = source
        .to_on(&device, DIRECT, &Stream::new(&device).unwrap())
        .unwrap();
    drop(source);
    assert!(runtime.wait_for_releases(Some(MOMENT)).is_err());
    assert!(!is_back.load(Ordering::SeqCst));
    host_event.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert!(is_back.load(Ordering::SeqCst));
    assert_eq!(copy.read().unwrap(), [7; 1 << 16]);
}

#[test]
fn work_of_others_that_was_named_holds_the_release_up_behind_readiness_too() {
    let runtime = runtime();
    let (source, is_back) = writable(&runtime);
    let (stream, host_event) = held(&cpu(&runtime));
    source.written_on(&stream).unwrap();
    source.ready_on(&stream).unwrap();
    drop(source);
    assert!(runtime.wait_for_releases(Some(MOMENT)).is_err());
    assert!(!is_back.load(Ordering::SeqCst));
    host_event.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert!(is_back.load(Ordering::SeqCst));
}
