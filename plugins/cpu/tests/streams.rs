//! The order of work on streams, and what events carry.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, LazyLock, Mutex};
use std::time::Duration;

use crossdock_plugin_cpu::event::{Event, Failure};
use crossdock_plugin_cpu::stream::Stream;
use crossdock_plugin_cpu::threads::Threads;
use crossdock_sdk::abi::Status;

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

fn stream() -> Stream {
    static THREADS: LazyLock<Arc<Threads>> = LazyLock::new(Threads::new);
    Stream::new(&THREADS)
}

#[test]
fn work_on_one_stream_runs_in_order() {
    let stream = stream();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..1000 {
        let seen = Arc::clone(&seen);
        let work = move || {
            seen.lock().unwrap().push(number);
            Ok(())
        };
        let submitted = if number % 3 == 0 {
            stream.submit_short(work)
        } else {
            stream.submit(work)
        };
        assert_eq!(submitted, Ok(()));
    }
    assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_stream_waits_for_an_event_while_the_submitting_thread_goes_on() {
    let (first, second, event) = (stream(), stream(), Event::new());
    let (gate, opened) = channel::<()>();
    let (told, heard) = channel();
    let tell = told.clone();
    first
        .submit(move || {
            opened.recv().unwrap();
            tell.send("first").unwrap();
            Ok(())
        })
        .unwrap();
    first.record(&event);
    second.wait(&event);
    second
        .submit_short(move || {
            told.send("second").unwrap();
            Ok(())
        })
        .unwrap();
    assert_eq!(event.query(), None);
    assert_eq!(second.query(), None);
    gate.send(()).unwrap();
    assert_eq!(second.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(
        heard.iter().take(2).collect::<Vec<_>>(),
        ["first", "second"]
    );
    assert_eq!(event.query(), Some(Ok(())));
}

#[test]
fn a_stream_waits_for_what_an_event_was_when_it_was_asked_to() {
    let (busy, waiting, event) = (stream(), stream(), Event::new());
    busy.record(&event);
    waiting.wait(&event);
    let (gate, opened) = channel::<()>();
    busy.submit(move || {
        opened.recv().unwrap();
        Ok(())
    })
    .unwrap();
    busy.record(&event);
    assert_eq!(waiting.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(event.query(), None);
    gate.send(()).unwrap();
    assert_eq!(event.synchronize(LIMIT), Some(Ok(())));
}

#[test]
fn a_failure_is_reported_once_and_travels_with_events() {
    let (first, second, event) = (stream(), stream(), Event::new());
    let broken = Failure::new(Status::VENDOR, "out of luck");
    let failure = broken.clone();
    first.submit(move || Err(failure)).unwrap();
    first.record(&event);
    second.wait(&event);
    assert_eq!(event.synchronize(LIMIT), Some(Err(broken.clone())));
    assert_eq!(second.synchronize(LIMIT), Some(Err(broken.clone())));
    assert_eq!(second.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(first.synchronize(LIMIT), Some(Err(broken)));
    assert_eq!(first.query(), Some(Ok(())));
}

#[test]
fn an_event_that_the_host_completes_holds_a_stream_until_then() {
    let (stream, event) = (stream(), Event::pending());
    stream.wait(&event);
    assert_eq!(stream.synchronize(Some(Duration::from_nanos(1))), None);
    assert!(event.complete(Ok(())));
    assert!(!event.complete(Err(Failure::new(Status::VENDOR, "too late"))));
    assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
}

#[test]
fn time_between_events_is_known_once_both_are_complete() {
    let (stream, from, to) = (stream(), Event::new(), Event::new());
    assert_eq!(from.happened_at(), None);
    assert_eq!(from.query(), Some(Ok(())));
    stream.record(&from);
    stream.submit(|| Ok(())).unwrap();
    stream.record(&to);
    assert_eq!(to.synchronize(LIMIT), Some(Ok(())));
    assert!(from.happened_at().unwrap() < to.happened_at().unwrap());
}

#[test]
fn a_stream_that_is_dropped_finishes_its_work() {
    let stream = stream();
    let (told, heard) = channel();
    let (gate, opened) = channel::<()>();
    stream
        .submit(move || {
            opened.recv().unwrap();
            Ok(())
        })
        .unwrap();
    stream
        .submit(move || {
            told.send(7).unwrap();
            Ok(())
        })
        .unwrap();
    drop(stream);
    gate.send(()).unwrap();
    assert_eq!(heard.recv_timeout(LIMIT.unwrap()), Ok(7));
}

#[test]
fn a_panic_in_host_work_fails_the_stream_and_not_the_work_after_it() {
    let stream = stream();
    stream.submit(|| std::panic::panic_any(1)).unwrap();
    let (told, heard) = channel();
    stream
        .submit(move || {
            told.send(7).unwrap();
            Ok(())
        })
        .unwrap();
    assert_eq!(heard.recv_timeout(LIMIT.unwrap()), Ok(7));
    let failure = stream.synchronize(LIMIT).unwrap().unwrap_err();
    // A panic of the call says nothing about the work; this one says that the work is over.
    assert_eq!(failure.status(), Status::VENDOR);
}

#[test]
fn threads_that_share_a_stream_lose_no_work() {
    let stream = Arc::new(stream());
    let count = Arc::new(Mutex::new(0));
    let start = Arc::new(Barrier::new(4));
    let threads = (0..4).map(|_| {
        let (stream, count, start) = (Arc::clone(&stream), Arc::clone(&count), Arc::clone(&start));
        std::thread::spawn(move || {
            start.wait();
            for number in 0..500 {
                let count = Arc::clone(&count);
                let work = move || {
                    *count.lock().unwrap() += 1;
                    Ok(())
                };
                let submitted = if number % 2 == 0 {
                    stream.submit(work)
                } else {
                    stream.submit_short(work)
                };
                assert_eq!(submitted, Ok(()));
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(*count.lock().unwrap(), 2000);
}

#[test]
fn who_synchronizes_again_and_again_with_a_short_limit_is_told_once_it_is_over() {
    let (stream, event) = (stream(), Event::pending());
    stream.wait(&event);
    for _ in 0..1000 {
        assert_eq!(stream.synchronize(Some(Duration::ZERO)), None);
    }
    let broken = Failure::new(Status::DEVICE_LOST, "gone");
    assert!(event.complete(Err(broken.clone())));
    assert_eq!(stream.synchronize(LIMIT), Some(Err(broken)));
    assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
}

#[test]
fn a_chain_of_many_streams_goes_on_when_its_first_event_happens() {
    let gate = Event::pending();
    let (mut last, mut streams) = (Event::new(), Vec::new());
    for number in 0..50_000 {
        let (stream, event) = (stream(), Event::new());
        stream.wait(if number == 0 { &gate } else { &last });
        stream.record(&event);
        last = event;
        streams.push(stream);
    }
    assert_eq!(last.query(), None);
    assert!(gate.complete(Ok(())));
    assert_eq!(last.synchronize(LIMIT), Some(Ok(())));
    let idle = |stream: &Stream| stream.query() == Some(Ok(()));
    assert!(streams.iter().all(idle));
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_goes_on_when_the_event_happens() {
    let (stream, event) = (stream(), Event::pending());
    let (told, heard) = channel();
    stream.wait(&event);
    let work = move || {
        told.send(7).unwrap();
        Ok(())
    };
    stream.submit(work).unwrap();
    drop(stream);
    event.abandon();
    assert_eq!(heard.recv_timeout(LIMIT.unwrap()), Ok(7));
}
