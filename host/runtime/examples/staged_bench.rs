//! What a staged copy reaches of its slower leg, for each pair of plugins that are here.
//!
//! A leg is the same bytes between the device and ordinary host memory, by its plugin alone, in one
//! call. Beside it stands what no staged copy has: a leg in calls of 4 MiB through one piece of
//! memory that stays in the cache. The host's memory is there already; the destination is new each
//! time, for the leg as for the copy. Run it by `cargo run --release -p crossdock --example
//! staged_bench`, with `CROSSDOCK_PLUGIN_PATH` naming a folder of plugins.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::sync::Arc;
use std::time::Instant;

use crossdock::{CostCache, Device, Error, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

/// Seconds of one round.
struct Round {
    legs: Legs,
    cached: Legs,
    staged: f64,
}

/// Seconds of both legs.
struct Legs {
    read: f64,
    write: f64,
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
    let mut host = vec![7; LENGTH];
    let source = Tensor::from_bytes(from, &layout, &host)?;
    let mut rounds = Vec::new();
    for _ in 0..=RUNS {
        rounds.push(round(&source, to, &layout, &mut host)?);
    }
    // The first round touches what is new.
    let rounds = rounds.get(1..).unwrap_or_default();
    let best = |time: fn(&Round) -> f64| rounds.iter().map(time).fold(f64::INFINITY, f64::min);
    let (read, write) = (
        best(|round| round.legs.read),
        best(|round| round.legs.write),
    );
    let cached = best(|round| round.cached.read).max(best(|round| round.cached.write));
    let staged = best(|round| round.staged);
    let speed = |seconds: f64| BYTES as f64 / seconds / 1e9;
    println!(
        "row\tstaged {from} -> {to}\t{:.2} GB/s\tread {:.2}, write {:.2}; slower leg in the cache \
         {:.2}, of which {:.2}\t{:.2}\t>= {TARGET}",
        speed(staged),
        speed(read),
        speed(write),
        speed(cached),
        cached / staged,
        read.max(write) / staged,
    );
    Ok(())
}

fn round(source: &Tensor, to: &Device, layout: &Layout, host: &mut [u8]) -> Result<Round, Error> {
    let cached = legs(
        source,
        to,
        layout,
        host.get_mut(..PART_LENGTH).unwrap_or_default(),
    )?;
    let staged = seconds(|| source.to(to, RouteChoice::Only(RouteKind::Staged)))?;
    let legs = legs(source, to, layout, host)?;
    Ok(Round {
        legs,
        cached,
        staged,
    })
}

/// Both legs, each in calls as long as `host`.
fn legs(source: &Tensor, to: &Device, layout: &Layout, host: &mut [u8]) -> Result<Legs, Error> {
    let length = host.len();
    let read = seconds(|| {
        for at in (0..BYTES).step_by(length) {
            part(source, at, length)?.read_into(host)?;
        }
        Ok(())
    })?;
    let write = seconds(|| {
        let written = Tensor::empty(to, layout)?;
        for at in (0..BYTES).step_by(length) {
            part(&written, at, length)?.write(host)?;
        }
        Ok(written)
    })?;
    Ok(Legs { read, write })
}

/// The time of `work`; what it made is dropped after that.
fn seconds<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<f64, Error> {
    let start = Instant::now();
    let made = work()?;
    let seconds = start.elapsed().as_secs_f64();
    drop(made);
    Ok(seconds)
}

fn part(whole: &Tensor, at: i64, length: usize) -> Result<Tensor, Error> {
    whole.slice(&[AxisSlice {
        start: at,
        step: 1,
        len: length.cast_signed() as i64,
    }])
}

const BYTES: i64 = 64 << 20;
const LENGTH: usize = 64 << 20;
const PART_LENGTH: usize = 4 << 20;
const RUNS: u32 = 15;
const TARGET: f64 = 0.85;
