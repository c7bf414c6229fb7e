//! Tensors between every pair of devices: each dtype in each layout by each route, verified bit for bit. Each process
//! has a seed, which draws the tensors, the streams and the number of hardware queues.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `draw`, `samples` | what a seed draws; the tensors, and what has to arrive |
//! | `expected` | the route between two devices, or why there is none |
//! | `moves`, `chains` | one move behind pending work; several, and those behind a held stream |
//! | `imports` | memory of others |
#![expect(
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

use std::time::{Duration, Instant};

use crossdock::{Device, Runtime};

use crate::driver::Driver;
use crate::{OVER, is_long, over, plugins};
use draw::Draw;
use moves::{Ends, Source};
use samples::{ARRANGEMENTS, Sample};

#[test]
fn lazily() {
    let name = "matrix::lazily";
    if over_seeds(name, "lazy") {
        passes();
    }
}

#[test]
fn by_a_seed() {
    let name = "matrix::by_a_seed";
    if over_seeds(name, "seeded") {
        passes();
    }
}

#[test]
fn by_threads() {
    let name = "matrix::by_threads";
    if over_seeds(name, "threads") {
        passes();
    }
}

/// Whether this is the process of a seed. Else one is started for each of 3 seeds, or 20 where there is time: a few at
/// once, since lazy ones wait for most of their time.
fn over_seeds(test: &str, policy: &str) -> bool {
    if std::env::var_os(OVER).is_some() {
        return over(test, &[]);
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
        "--cuda 2 --policy {policy} --seed {seed} --queues {queues} --set leaks=1 --set waits=1"
    );
    let words: Vec<&str> = words.split(' ').collect();
    over(test, &[&words]);
}

fn runtime(draw: &mut Draw) -> Runtime {
    // Chunks that most tensors span, or none of them.
    let builder = plugins().staging_bytes(*draw.one(&[1 << 14, 1 << 23]));
    builder.open().unwrap()
}

/// Every device: of OpenCL's only the first, where there is one.
fn devices(runtime: &Runtime) -> Vec<Device> {
    let mut devices = runtime.devices();
    devices.retain(|device| device.plugin().name() != "opencl" || device.index() == 0);
    let names: Vec<_> = devices
        .iter()
        .map(|device| device.id().to_string())
        .collect();
    for name in ["cpu:0", "cuda:0", "cuda:1"] {
        assert!(names.iter().any(|other| other == name), "{names:?}");
    }
    if !names.iter().any(|name| name == "opencl:0") {
        println!("skipped: opencl:0, because there is no OpenCL here: {names:?}");
    }
    devices
}

fn passes() {
    let (mut draw, driver) = (Draw(draw::seed()), Driver::open());
    let runtime = runtime(&mut draw);
    let ends: Vec<Ends> = devices(&runtime).into_iter().map(Ends::new).collect();
    for element in samples::elements() {
        for arrangement in ARRANGEMENTS {
            let sample = Sample::drawn(element, arrangement, &mut draw);
            for from in &ends {
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
    let lent = imports::all(&runtime, &driver, &ends, &mut draw);
    assert_eq!(driver.device_waits(), 0);
    drop(lent);
    drop((ends, runtime));
    // Threads of the runtime give back the last of it, and the plugin is closed behind them.
    let begun = Instant::now();
    while driver.leaks() > 0 && begun.elapsed() < LIMIT {
        std::thread::yield_now();
    }
    assert_eq!(driver.leaks(), 0);
}

/// Longer than anything takes that ends at all.
const LIMIT: Duration = Duration::from_secs(60);
