//! What a staged copy reaches of its slower leg, for each pair of plugins that are here.
//!
//! Both legs go through one chunk of host memory that is there already; the destination is new each
//! time, for the leg as for the copy. Run it by `cargo run --release -p crossdock --example
//! staged_bench`, with `CROSSDOCK_PLUGIN_PATH` naming a folder of plugins.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::sync::Arc;
use std::time::Instant;

use crossdock::{CostCache, Device, Error, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

/// Seconds of one round.
struct Round {
    read: f64,
    write: f64,
    staged: f64,
}

fn main() -> Result<(), Error> {
    let runtime = Runtime::builder().costs(CostCache::Off).open()?;
    let devices = runtime.devices();
    println!(
        "{} MiB, the best of {RUNS} runs; GB/s of payload",
        BYTES >> 20
    );
    for from in &devices {
        for to in &devices {
            if !Arc::ptr_eq(from.plugin(), to.plugin()) {
                pair(from, to)?;
            }
        }
    }
    if devices.len() < 2 {
        println!("skip\tstaged\tone plugin only; name others in CROSSDOCK_PLUGIN_PATH");
    }
    Ok(())
}

fn pair(from: &Device, to: &Device) -> Result<(), Error> {
    let layout = Layout::compact(Dtype::UINT8, &[BYTES])?;
    let source = Tensor::from_bytes(from, &layout, &vec![7; PART_LENGTH * PARTS])?;
    let mut rounds = Vec::new();
    for _ in 0..=RUNS {
        rounds.push(round(&source, to, &layout)?);
    }
    // The first round touches what is new.
    let rounds = rounds.get(1..).unwrap_or_default();
    let best = |time: fn(&Round) -> f64| rounds.iter().map(time).fold(f64::INFINITY, f64::min);
    let (read, write) = (best(|round| round.read), best(|round| round.write));
    let staged = best(|round| round.staged);
    let speed = |seconds: f64| BYTES as f64 / seconds / 1e9;
    println!(
        "row\tstaged {from} -> {to}\t{:.2} GB/s\tread {:.2}, write {:.2}\t{:.2}\t>= {TARGET}",
        speed(staged),
        speed(read),
        speed(write),
        read.max(write) / staged,
    );
    Ok(())
}

fn round(source: &Tensor, to: &Device, layout: &Layout) -> Result<Round, Error> {
    let mut chunk = vec![1; PART_LENGTH];
    let start = Instant::now();
    for at in (0..BYTES).step_by(PART_LENGTH) {
        part(source, at)?.read_into(&mut chunk)?;
    }
    let read = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let moved = source.to(to, RouteChoice::Only(RouteKind::Staged))?;
    let staged = start.elapsed().as_secs_f64();
    drop(moved);

    let start = Instant::now();
    let written = Tensor::empty(to, layout)?;
    for at in (0..BYTES).step_by(PART_LENGTH) {
        part(&written, at)?.write(&chunk)?;
    }
    let write = start.elapsed().as_secs_f64();
    Ok(Round {
        read,
        write,
        staged,
    })
}

fn part(whole: &Tensor, at: i64) -> Result<Tensor, Error> {
    whole.slice(&[AxisSlice {
        start: at,
        step: 1,
        len: PART,
    }])
}

const BYTES: i64 = 64 << 20;
/// As much as a staged copy moves at once.
const PART: i64 = 4 << 20;
const PART_LENGTH: usize = 4 << 20;
const PARTS: usize = 16;
const RUNS: u32 = 15;
const TARGET: f64 = 0.85;
