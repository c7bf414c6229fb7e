//! Tensors between every pair of all devices that a machine without a GPU can have: each dtype in each layout by each
//! route, verified bit for bit, with pending work on streams. The devices are the CPU, those of OpenCL, two simulated
//! ones of CUDA and two of ROCm, and that of the plugin in C whose memory lives in another process. Each process has a
//! seed, which draws the tensors, the streams and the number of hardware queues.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `draw`, `samples` | what a seed draws; the tensors, and what has to arrive |
//! | `expected` | the route between two devices, or why there is none |
//! | `moves`, `chains` | one move behind pending work; several, and those behind a held stream |
//! | `vendors`, `imports` | the simulated drivers as others use them; memory of others |
//!
//! `cargo build` first: the tests open the files of the plugins and of the simulator. With `CROSSDOCK_LONG=1` there are
//! 20 seeds and all pairs for each sample, else 3 seeds, and each sample leaves some of the devices in turn.
#![expect(
    unsafe_code,
    reason = "calls the vendors' functions beside the plugins, and imports their memory"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by it, with what was moved"
)]

mod chains;
mod draw;
mod expected;
mod imports;
mod moves;
mod samples;
mod vendors;

use std::path::Path;
use std::time::{Duration, Instant};

use crossdock::{CostCache, Device, Runtime};
use crossdock_e2e::{plugin_file, remote, report};
use crossdock_over_simulator::{is_long, is_over_simulator, over_simulator};

use draw::Draw;
use moves::{Ends, Source};
use samples::{ARRANGEMENTS, Sample};
use vendors::{Simulator, Vendor};

#[test]
fn lazily() {
    if over_seeds("lazily", "lazy") {
        passes();
    }
}

#[test]
fn by_a_seed() {
    if over_seeds("by_a_seed", "seeded") {
        passes();
    }
}

#[test]
fn by_threads() {
    if over_seeds("by_threads", "threads") {
        passes();
    }
}

/// Whether this is the process of a seed. Else one is started for each: a few at once, since lazy ones wait for most of
/// their time.
fn over_seeds(test: &str, policy: &str) -> bool {
    if is_over_simulator(test) {
        return true;
    }
    let seeds: Vec<usize> = (0..if is_long() { 20 } else { 3 }).collect();
    for seeds in seeds.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for seed in seeds {
                scope.spawn(|| over_seed(test, policy, *seed));
            }
        });
    }
    false
}

const AT_ONCE: usize = 3;

fn over_seed(test: &str, policy: &str, seed: usize) {
    let queues = [1, 2, 8][seed % 3];
    // What was made and left is reported, and where something waited for a device is told.
    let words = format!(
        "--cuda 2 --rocm 2 --policy {policy} --seed {seed} --queues {queues} --set leaks=1 --set waits=1"
    );
    let words: Vec<&str> = words.split(' ').collect();
    let is_over = over_simulator(test, &[&words]);
    assert!(!is_over, "another process runs it");
}

fn runtime(folder: &Path, draw: &mut Draw) -> Runtime {
    let mut builder = Runtime::builder().search(false).costs(CostCache::Off);
    // Either vendor's library may be loaded first.
    let mut names = ["cuda", "rocm", "opencl"];
    names.swap(0, usize::try_from(draw.below(2)).unwrap());
    for name in names {
        match plugin_file(name) {
            Some(file) => builder = builder.plugin(file),
            None => report(&format!("skipped: the {name} plugin is not built")),
        }
    }
    // Chunks that most tensors span, or none of them.
    let staging = *draw.one(&[1 << 14, 1 << 23]);
    let builder = builder.plugin(remote(folder)).staging_bytes(staging);
    builder.open().unwrap()
}

fn devices(runtime: &Runtime) -> Vec<Device> {
    let devices = runtime.devices();
    let names: Vec<_> = devices
        .iter()
        .map(|device| device.id().to_string())
        .collect();
    for name in ["cpu:0", "cuda:0", "cuda:1", "rocm:0", "rocm:1", "ext_dev:0"] {
        assert!(names.iter().any(|other| other == name), "{names:?}");
    }
    if !names.iter().any(|name| name == "opencl:0") {
        report(&format!(
            "skipped: opencl:0, because there is no OpenCL here: {names:?}"
        ));
    }
    devices
}

fn passes() {
    let (folder, simulator) = (tempfile::tempdir().unwrap(), Simulator::open());
    let mut draw = Draw(draw::seed());
    let vendors = [Vendor::cuda(), Vendor::rocm()];
    let runtime = runtime(folder.path(), &mut draw);
    let ends: Vec<Ends> = devices(&runtime).into_iter().map(Ends::new).collect();
    let mut turn = 0;
    for element in samples::elements() {
        for arrangement in ARRANGEMENTS {
            let sample = Sample::drawn(element, arrangement, &mut draw);
            for from in sources(&ends, &mut turn) {
                let mut source = Source::new(&sample, from);
                for to in &ends {
                    source.to(to, &ends, &mut draw);
                }
            }
            chains::chain(&sample, &ends, &mut draw);
        }
    }
    for from in &ends {
        for to in &ends {
            chains::behind_a_held_stream(from, to, &mut draw);
            chains::over_many_parts(from, to, &mut draw);
        }
    }
    let lend = |vendor| imports::all(&runtime, vendor, &ends, &mut draw);
    let lent = vendors.each_ref().map(lend);
    assert_eq!(simulator.device_waits(), 0);
    drop(lent);
    drop((ends, runtime));
    // Threads of the runtime give back the last of it, and the plugins are closed behind them.
    let begun = Instant::now();
    while simulator.leaks() > 0 && begun.elapsed() < LIMIT {
        std::thread::yield_now();
    }
    assert_eq!(simulator.leaks(), 0);
}

/// The devices that a sample comes from: all, or where time is short the next ones in turn.
fn sources<'a>(ends: &'a [Ends], turn: &mut usize) -> impl Iterator<Item = &'a Ends> {
    let count = if is_long() { ends.len() } else { 2 };
    let first = *turn;
    *turn += count;
    (first..first + count).map(|at| &ends[at % ends.len()])
}

/// Longer than anything takes that ends at all.
const LIMIT: Duration = Duration::from_secs(60);
