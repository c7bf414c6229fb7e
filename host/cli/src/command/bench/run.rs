//! Times the calls of an exchange, and copies between all devices by each route and size.
#![expect(unsafe_code, reason = "hands an export to an import")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crossdock::{Device, Error, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_sdk::dlpack::{Dtype, Layout, Received};
use serde::Serialize;

use crate::{progress::Progress, report::DeviceRow};

/// Everything that was timed.
#[derive(Debug, Serialize)]
pub(crate) struct Bench {
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) calls: Vec<CallRow>,
    /// For each pair and route one row a size, in the order of [`SIZES`].
    pub(crate) copies: Vec<CopyRow>,
}

/// A call that moves no bytes.
#[derive(Debug, Serialize)]
pub(crate) struct CallRow {
    /// `exchange` (export, import, release), `device lookup` or `pointer query`.
    pub(crate) call: &'static str,
    pub(crate) device: String,
    pub(crate) seconds: f64,
}

/// One size by one route, the allocation of the destination included.
#[derive(Debug, Serialize)]
pub(crate) struct CopyRow {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) route: String,
    pub(crate) bytes: u64,
    /// `None` where there is no such route.
    pub(crate) seconds: Option<f64>,
    /// `None` where nothing was copied.
    pub(crate) gb_per_s: Option<f64>,
    /// Why there is no such route, or what failed; else empty.
    pub(crate) why: String,
    #[serde(skip)]
    pub(crate) is_failed: bool,
}

/// Bytes that are copied: a small tensor, a picture, a weight.
pub(crate) const SIZES: [i64; 3] = [4 << 10, 1 << 20, 64 << 20];

const ROUTES: [RouteKind; 3] = [RouteKind::Alias, RouteKind::Direct, RouteKind::Staged];

/// Times everything.
pub(crate) fn run_all(runtime: &Runtime, quiet: bool) -> Result<Bench, Error> {
    let devices = runtime.devices();
    let mut calls = Vec::new();
    for device in &devices {
        calls.extend(time_calls(runtime, device)?);
    }
    let pair_count = u64::try_from(devices.len().pow(2)).unwrap_or(u64::MAX);
    let mut progress = Progress::new(pair_count.saturating_mul(ONE_PAIR), quiet);
    let mut copies = Vec::new();
    for from in &devices {
        for to in &devices {
            progress.begin(&format!("{} -> {}", from.id(), to.id()));
            for route in ROUTES {
                copies.extend(SIZES.map(|bytes| time_copy(from, to, route, bytes)));
            }
            progress.done(ONE_PAIR);
        }
    }
    Ok(Bench {
        devices: devices.iter().map(DeviceRow::of).collect(),
        calls,
        copies,
    })
}

fn time_calls(runtime: &Runtime, device: &Device) -> Result<Vec<CallRow>, Error> {
    let layout = Layout::compact(Dtype::FLOAT32, &[64, 64])?;
    let tensor = Tensor::empty(device, &layout)?;
    let exchange = || exchange(runtime, &tensor);
    let lookup = || runtime.device(device.id()).map(drop);
    let query = || {
        device
            .plugin()
            .hooks()
            .pointer_query(tensor.address())
            .map(drop)
    };
    let row = |call, seconds| CallRow {
        call,
        device: device.id().to_string(),
        seconds,
    };
    Ok(vec![
        row("exchange", per_call(exchange)?),
        row("device lookup", per_call(lookup)?),
        row("pointer query", per_call(query)?),
    ])
}

/// One export, its import and the release of both.
fn exchange(runtime: &Runtime, tensor: &Tensor) -> Result<(), Error> {
    let managed = tensor.export_unordered()?.into_raw();
    // SAFETY: a live export that nobody else owns.
    let received = unsafe { Received::from_versioned(managed) }?;
    black_box(Tensor::import(runtime, received)?);
    Ok(())
}

/// Seconds of one call: the best of a few loops.
fn per_call(call: impl Fn() -> Result<(), Error>) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for _ in 0..LOOPS {
        let start = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(CALLS));
    }
    Ok(best)
}

fn time_copy(from: &Device, to: &Device, route: RouteKind, bytes: i64) -> CopyRow {
    let mut row = CopyRow {
        from: from.id().to_string(),
        to: to.id().to_string(),
        route: route.to_string(),
        bytes: bytes.unsigned_abs(),
        seconds: None,
        gb_per_s: None,
        why: String::new(),
        is_failed: false,
    };
    match best_move(from, to, route, bytes) {
        Ok(seconds) => {
            row.seconds = Some(seconds);
            let is_copy = route != RouteKind::Alias && seconds > 0.0;
            row.gb_per_s = is_copy.then(|| row.bytes as f64 / seconds / 1e9);
        }
        Err(error) => {
            row.is_failed = !matches!(error, Error::Refused { .. });
            row.why = error.why();
        }
    }
    row
}

/// Seconds of the fastest of a few moves; the first one does not count.
fn best_move(from: &Device, to: &Device, route: RouteKind, bytes: i64) -> Result<f64, Error> {
    let layout = Layout::compact(Dtype::UINT8, &[bytes])?;
    let length = usize::try_from(bytes).unwrap_or(0);
    let source = Tensor::from_bytes(from, &layout, &vec![1; length])?;
    let choice = RouteChoice::Only(route);
    drop(source.to(to, choice)?);
    let (began, mut best) = (Instant::now(), f64::INFINITY);
    for _ in 0..MOVES {
        let start = Instant::now();
        let moved = source.to(to, choice)?;
        best = best.min(start.elapsed().as_secs_f64());
        drop(moved);
        if began.elapsed() > ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// What progress counts for a pair: each size once a route.
const ONE_PAIR: u64 = (SIZES[0] + SIZES[1] + SIZES[2]).unsigned_abs() * ROUTES.len() as u64;
const LOOPS: u32 = 5;
const CALLS: u32 = 2000;
const MOVES: u32 = 20;
/// After this time one more move tells nothing new.
const ENOUGH: Duration = Duration::from_millis(200);
