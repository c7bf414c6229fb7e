//! How many threads streams need, and what happens where the system has none.
#![expect(clippy::unwrap_used, reason = "a test may fail that way")]
#![expect(unsafe_code, reason = "limits the memory of a process of its own")]

use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crossdock_plugin_cpu::event::{Event, Outcome};
use crossdock_plugin_cpu::stream::Stream;
use crossdock_plugin_cpu::threads::Threads;
use crossdock_sdk::abi::Status;

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

fn streams(threads: &Arc<Threads>, count: usize) -> Vec<Stream> {
    (0..count).map(|_| Stream::new(threads)).collect()
}

/// Whether it is so many threads after a while.
fn comes_down_to(threads: &Threads, wanted: impl Fn(usize) -> bool) -> bool {
    let end = Instant::now() + LIMIT.unwrap();
    while Instant::now() < end {
        if wanted(threads.count()) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn streams_that_wait_need_no_thread_each() {
    let (threads, host_event) = (Threads::new(), Event::pending());
    let (told, heard) = channel();
    let waiting = streams(&threads, 500);
    for stream in &waiting {
        let told = told.clone();
        stream.wait(&host_event);
        let work = move || {
            told.send(()).unwrap();
            Ok(())
        };
        stream.submit(work).unwrap();
    }
    assert_eq!(threads.count(), 1, "the one that will run the first");
    assert!(host_event.complete(Ok(())));
    for stream in &waiting {
        assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
    }
    assert_eq!(heard.try_iter().count(), 500);
}

#[test]
fn work_that_blocks_holds_up_no_other_stream() {
    let threads = Threads::new();
    // None goes on before all of them run.
    let together = Arc::new(Barrier::new(64));
    let block = || {
        let together = Arc::clone(&together);
        move || {
            together.wait();
            Ok(())
        }
    };
    let host_event = Event::pending();
    let busy = streams(&threads, 64);
    for stream in &busy[..32] {
        stream.submit(block()).unwrap();
    }
    for stream in &busy[32..] {
        stream.wait(&host_event);
        stream.submit(block()).unwrap();
    }
    assert!(host_event.complete(Ok(())));
    for stream in &busy {
        assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
    }
}

#[test]
fn threads_that_have_nothing_to_do_end_but_for_one() {
    let block = |threads: &Arc<Threads>| {
        let together = Arc::new(Barrier::new(32));
        for stream in streams(threads, 32) {
            let together = Arc::clone(&together);
            let work = move || {
                together.wait();
                Ok(())
            };
            stream.submit(work).unwrap();
        }
    };
    let few = Threads::keeping(4, Duration::MAX);
    block(&few);
    assert!(comes_down_to(&few, |count| count == 4));
    let not_long = Threads::keeping(32, Duration::from_millis(1));
    block(&not_long);
    assert!(comes_down_to(&not_long, |count| count == 1));
    let closed = Threads::keeping(32, Duration::MAX);
    block(&closed);
    closed.close();
    closed.join();
    assert_eq!(closed.count(), 0);
}

#[test]
fn a_closed_pool_does_the_work_that_comes_all_the_same() {
    let (threads, host_event) = (Threads::new(), Event::pending());
    let stream = Stream::new(&threads);
    stream.wait(&host_event);
    stream.submit(|| Ok(())).unwrap();
    threads.close();
    assert!(comes_down_to(&threads, |count| count == 0));
    assert!(host_event.complete(Ok(())));
    assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
    assert!(comes_down_to(&threads, |count| count == 0));
}

#[test]
fn work_without_a_thread_is_refused_and_all_else_goes_on() {
    if std::env::var_os(ALONE).is_none() {
        // No machine has room for such a stack.
        let name = "work_without_a_thread_is_refused_and_all_else_goes_on";
        return alone(name, &(1_u64 << 46).to_string());
    }
    let threads = Threads::new();
    let (stream, event, host_event) = (Stream::new(&threads), Event::new(), Event::pending());
    let refused = |submitted: Outcome| submitted.map_err(|failure| failure.status());
    assert_eq!(refused(stream.submit(|| Ok(()))), Err(Status::OOM_HOST));
    assert_eq!(stream.query(), Some(Ok(())), "nothing was submitted");
    stream.wait(&host_event);
    stream.record(&event);
    for submitted in [stream.submit(|| Ok(())), stream.submit_short(|| Ok(()))] {
        assert_eq!(refused(submitted), Err(Status::OOM_HOST));
    }
    assert_eq!(stream.synchronize(Some(Duration::ZERO)), None);
    assert!(host_event.complete(Ok(())));
    assert_eq!(event.query(), Some(Ok(())));
    assert_eq!(stream.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(stream.submit_short(|| Ok(())), Ok(()));
    assert_eq!(threads.count(), 0);
}

#[test]
fn work_that_was_taken_runs_when_a_thread_is_free_where_there_is_no_other() {
    if std::env::var_os(ALONE).is_none() {
        let name = "work_that_was_taken_runs_when_a_thread_is_free_where_there_is_no_other";
        return alone(name, "2097152");
    }
    let threads = Threads::new();
    let (busy, waiting) = (Stream::new(&threads), Stream::new(&threads));
    let (host_event, event) = (Arc::new(Barrier::new(2)), Event::pending());
    let both = Arc::clone(&host_event);
    let block = move || {
        both.wait();
        both.wait();
        Ok(())
    };
    busy.submit(block).unwrap();
    host_event.wait();
    leave_no_room_for_a_stack();
    waiting.wait(&event);
    waiting.submit(|| Ok(())).unwrap();
    let refused = Stream::new(&threads).submit(|| Ok(())).unwrap_err();
    assert_eq!(refused.status(), Status::OOM_HOST, "it had to run at once");
    assert!(event.complete(Ok(())));
    assert_eq!(waiting.query(), None, "the only thread is busy");
    host_event.wait();
    assert_eq!(waiting.synchronize(LIMIT), Some(Ok(())));
    assert_eq!(threads.count(), 1);
}

/// Lets this process have a little more memory than it has, and no stack of 2 MiB.
fn leave_no_room_for_a_stack() {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    let most = pages * 4096 + (1 << 20);
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the structure lives during the call.
    let limited = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(limited, 0);
}

/// Runs the test `name` in a process of its own, whose threads have stacks of so many bytes.
fn alone(name: &str, stack: &str) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .env("RUST_MIN_STACK", stack)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && text.contains("1 passed"),
        "{child:?}"
    );
}

/// Set in a test's own process.
const ALONE: &str = "CROSSDOCK_TEST_ALONE";
