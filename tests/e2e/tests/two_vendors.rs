//! Copies between simulated devices of two vendors, on streams that the host holds: they go through host memory, and no
//! call waits, however few hardware queues there are.
//!
//! `cargo build` first: the tests open the files of the plugins and of the simulator.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::thread;
use std::time::Duration;

use crossdock::counted_leaks;
use crossdock::{CostCache, Device, Event, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_e2e::{plugin_file, report};
use crossdock_over_simulator::over_simulator;
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

/// Of 5 parts.
const USUAL: i64 = 4 << 20;
/// Of 64 parts, the most that can be in flight.
const LONG: i64 = 1 << 30;

fn open() -> (Runtime, [Device; 2]) {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let add = |builder: crossdock::RuntimeBuilder, name| builder.plugin(plugin_file(name).unwrap());
    let runtime = ["cuda", "rocm"]
        .into_iter()
        .fold(builder, add)
        .open()
        .unwrap();
    let devices = ["cuda:0", "rocm:0"].map(|name| runtime.device(name.parse().unwrap()).unwrap());
    (runtime, devices)
}

fn are_built() -> bool {
    let are_built = ["cuda", "rocm"]
        .into_iter()
        .all(|name| plugin_file(name).is_some());
    if !are_built {
        report("skipped: the plugins for GPUs are not built");
    }
    are_built
}

fn layout(bytes: i64) -> Layout {
    Layout::compact(Dtype::UINT8, &[bytes]).unwrap()
}

/// Bytes of which no part is like another.
fn content(bytes: i64, seed: u32) -> Vec<u8> {
    let byte = |at: u32| (at ^ seed).wrapping_mul(2_654_435_761) >> 24;
    let all = 0..u32::try_from(bytes).unwrap();
    all.map(|at| byte(at).to_le_bytes()[0]).collect()
}

/// A stream that the host holds until the event is completed.
struct Held {
    stream: Stream,
    gate: Event,
}

impl Held {
    fn on(device: &Device) -> Self {
        let (stream, gate) = (Stream::new(device).unwrap(), Event::host(device).unwrap());
        stream.wait(&gate).unwrap();
        Self { stream, gate }
    }

    /// Copies, which has to return before the stream goes on.
    fn copy(&self, source: &Tensor, to: &Device) -> Tensor {
        let (moved, route) = source.to_on(to, STAGED, &self.stream).unwrap();
        let told = route.to_string();
        assert!(told.contains("before the call returns"), "{told}");
        moved
    }
}

#[test]
fn copies_return_while_their_streams_are_held() {
    let policies = ["lazy", "seeded", "threads"].into_iter();
    let runs: Vec<_> = policies
        .flat_map(|policy| ["1", "2", "8"].map(|queues| (policy, queues)))
        .map(|(policy, queues)| {
            [
                "--cuda", "1", "--rocm", "1", "--policy", policy, "--queues", queues,
            ]
        })
        .collect();
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 8]>::as_slice).collect();
    if !are_built() || !over_simulator("copies_return_while_their_streams_are_held", &runs) {
        return;
    }
    let (runtime, [cuda, rocm]) = open();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let directions = [[&cuda, &rocm], [&rocm, &cuda]];
    for seed in 0..2 {
        let wanted = content(USUAL, seed);
        let sources = [&cuda, &rocm].map(|from| Tensor::from_bytes(from, &layout(USUAL), &wanted));
        let sources = sources.map(Result::unwrap);
        // The streams of one thread, of another one, and of both.
        let own = [&cuda, &rocm].map(Held::on);
        let shared = [&cuda, &rocm, &cpu].map(Held::on);
        let moved: Vec<Tensor> = thread::scope(|scope| {
            let copies = directions.iter().zip(&sources).zip(&own);
            let threads: Vec<_> = copies
                .map(|(([_, to], source), own)| {
                    let streams = shared.iter().chain([own, own]);
                    scope.spawn(move || {
                        streams
                            .map(|held| held.copy(source, to))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            let moved = threads.into_iter().map(|thread| thread.join().unwrap());
            moved.flatten().collect()
        });
        // What was held first goes on last.
        for held in own.iter().chain(&shared).rev() {
            held.gate.complete(Status::OK).unwrap();
        }
        for copy in moved {
            assert!(copy.read().unwrap() == wanted);
        }
        drop((sources, own, shared));
        runtime.wait_for_releases(LIMIT).unwrap();
        cuda.synchronize(LIMIT).unwrap();
        rocm.synchronize(LIMIT).unwrap();
    }
    assert_eq!(counted_leaks(), 0);
}

#[test]
fn the_longest_copy_that_fits_returns_while_its_stream_is_held() {
    let name = "the_longest_copy_that_fits_returns_while_its_stream_is_held";
    let options = [
        "--cuda", "1", "--rocm", "1", "--policy", "threads", "--queues", "1",
    ];
    let options = [options.as_slice(), &["--set", "mem=3G"]].concat();
    if !are_built() || !over_simulator(name, &[&options]) {
        return;
    }
    let (runtime, [cuda, rocm]) = open();
    let source = Tensor::empty(&cuda, &layout(LONG)).unwrap();
    source.fill(&[7], None).unwrap();
    let held = Held::on(&cuda);
    let moved = held.copy(&source, &rocm);
    held.gate.complete(Status::OK).unwrap();
    let apart = AxisSlice {
        start: 0,
        step: (1 << 20) - 1,
        len: 1 << 10,
    };
    let some = moved.slice(&[apart]).unwrap().read().unwrap();
    assert!(some.iter().all(|byte| *byte == 7));
    drop((source, moved, held));
    runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(counted_leaks(), 0);
}

/// The stream goes on where its device is lost, and the next copy on it uses the same chunks.
#[test]
fn a_lost_device_of_the_stream_overwrites_no_copy_that_is_pending_between_two_others() {
    let name = "a_lost_device_of_the_stream_overwrites_no_copy_that_is_pending_between_two_others";
    let loss = "fault=dev2:exec:hipMemset*@1=719!";
    let options = [
        "--cuda", "1", "--rocm", "2", "--policy", "threads", "--set", loss,
    ];
    if !are_built() || !over_simulator(name, &[&options]) {
        return;
    }
    let (runtime, [cuda, rocm]) = open();
    let lost = runtime.device("rocm:1".parse().unwrap()).unwrap();
    let [first, second] = [1, 2].map(|seed| content(USUAL, seed));
    let sources = [&first, &second].map(|bytes| Tensor::from_bytes(&cuda, &layout(USUAL), bytes));
    let copies = [(); 2].map(|()| Tensor::empty(&rocm, &layout(USUAL)).unwrap());
    // Only the first copy waits for this.
    let held = Held::on(&rocm);
    copies[0].written_on(&held.stream).unwrap();
    let stream = Stream::new(&lost).unwrap();
    for (copy, source) in copies.iter().zip(&sources) {
        copy.copy_from(source.as_ref().unwrap(), Some(&stream))
            .unwrap();
    }
    let there = Tensor::empty(&lost, &layout(1)).unwrap();
    assert!(there.fill(&[7], None).is_err());
    assert!(stream.synchronize(LIMIT).is_err());
    // Time for the second copy, which has to wait for the first.
    let _late = copies[1].synchronize(Some(Duration::from_secs(1)));
    held.gate.complete(Status::OK).unwrap();
    assert!(copies[0].read().unwrap() == first);
    assert!(copies[1].read().is_err() || copies[1].read().unwrap() == second);
}
