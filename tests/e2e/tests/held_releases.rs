//! Waits and releases behind a held stream of a simulated device: how many threads they need, and whether one of them
//! holds up the others.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use crossdock::{CostCache, Device, Runtime, Stream, Tensor, WaitMethod, counted_leaks};
use crossdock_e2e::lending::{ALL, LIMIT, MOMENT, filled, held, layout, lent, status};
use crossdock_e2e::plugin_file;
use crossdock_over_simulator::{is_long, is_over_simulator, over_simulator, run_over};
use crossdock_sdk::abi::Status;

const ONE_QUEUE: [&str; 6] = ["--cuda", "1", "--queues", "1", "--policy", "threads"];

fn cpu_and_cuda() -> (Runtime, Device, Device) {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let builder = builder.plugin(plugin_file("cuda").unwrap());
    let runtime = builder.open().unwrap();
    let [cpu, cuda] = ["cpu:0", "cuda:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    (runtime, cpu, cuda)
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Makes waits of another plugin and releases, half of each, behind a held stream.
fn wait_behind_a_held_stream(method: WaitMethod, operations: usize) {
    let (runtime, cpu, cuda) = cpu_and_cuda();
    let (stream, gate) = held(&cuda);
    let waiting = Stream::new(&cpu).unwrap();
    let mut first = 0;
    for number in 0..operations / 2 {
        let how = waiting.wait(&stream.record().unwrap()).unwrap();
        assert_eq!(how, method);
        let (received, _is_back) = lent(&runtime, None);
        received.used_on(&stream).unwrap();
        drop(received);
        if number == 10 {
            first = threads();
        }
    }
    assert_eq!(threads(), first, "of {operations} waits and releases");
    gate.complete(Status::OK).unwrap();
    // A simulated device with so many streams is slow.
    waiting.synchronize(None).unwrap();
    runtime.wait_for_releases(None).unwrap();
}

#[test]
fn waits_and_releases_behind_a_held_stream_need_no_more_threads() {
    let name = "waits_and_releases_behind_a_held_stream_need_no_more_threads";
    if over_simulator(name, &[&ONE_QUEUE]) {
        // So many host functions take the simulator a time that grows with their square.
        let operations = if is_long() { 10_000 } else { 1_000 };
        wait_behind_a_held_stream(WaitMethod::HostEvent, operations);
    }
}

#[test]
fn polled_waits_and_releases_behind_a_held_stream_need_no_more_threads() {
    let name = "polled_waits_and_releases_behind_a_held_stream_need_no_more_threads";
    if is_over_simulator(name) {
        return wait_behind_a_held_stream(WaitMethod::HostThread, 10_000);
    }
    let refused = [("CROSSDOCK_FAULT", "cuda.stream_host_call:*=UNSUPPORTED")];
    if let Some((code, told)) = run_over(name, &ONE_QUEUE, &refused) {
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("1 passed"), "{told}");
    }
}

#[test]
fn a_registration_that_foreign_work_needs_delays_no_other_release() {
    let name = "a_registration_that_foreign_work_needs_delays_no_other_release";
    let queues = ["--cuda", "1", "--queues", "8", "--policy", "threads"];
    if !over_simulator(name, &[&queues]) {
        return;
    }
    let (runtime, _cpu, cuda) = cpu_and_cuda();
    let bytes = Arc::<[u8]>::from([7; ALL]);
    // Two tensors of the same bytes: the work on one is not known to be on the other.
    let [first, second] = [(); 2].map(|()| {
        let owner = Box::new(Arc::clone(&bytes));
        Tensor::from_host_memory(&runtime, owner, 0, &layout()).unwrap()
    });
    let registration = first.register(&cuda).unwrap();
    drop(first);
    let (stream, gate) = held(&cuda);
    let copied = filled(&cuda, 0);
    copied.copy_from(&second, Some(&stream)).unwrap();
    let (dropped, is_dropped) = channel();
    thread::spawn(move || {
        drop(registration);
        dropped.send(()).unwrap();
    });
    is_dropped.recv_timeout(LIMIT.unwrap()).unwrap();
    // A release of the same plugin that has to wait for its own work alone.
    let (received, is_back) = lent(&runtime, None);
    let (other, opened) = held(&cuda);
    received.used_on(&other).unwrap();
    drop(received);
    opened.complete(Status::OK).unwrap();
    let end = Instant::now() + LIMIT.unwrap();
    while !is_back.load(Ordering::SeqCst) {
        assert!(Instant::now() < end, "it waits for the registration");
        thread::yield_now();
    }
    let waited = runtime.wait_for_releases(Some(MOMENT));
    assert_eq!(status(&waited), Some(Status::TIMEOUT));
    assert_eq!(Arc::strong_count(&bytes), 3, "it is still locked");
    gate.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(Arc::strong_count(&bytes), 2);
    assert_eq!((counted_leaks(), copied.read().unwrap()), (0, vec![7; ALL]));
}
