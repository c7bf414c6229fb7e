//! Measuring: short copies of a few sizes between two devices, in a bounded time.

use std::time::{Duration, Instant};

use crossdock_sdk::dlpack::{Dtype, Layout};

use super::curve::{Curve, Point};
use super::table::PairCosts;
use crate::device::Device;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::way::Way;

/// Times each way between two devices. What fails, or is too slow to be timed, is not measured.
pub(super) fn measure(from: &Device, to: &Device, ways: &[Way]) -> PairCosts {
    let mut costs = PairCosts::default();
    let Ok((dst, src)) = ends(from, to, LARGEST_BYTES) else {
        return costs;
    };
    let share = BUDGET / u32::try_from(ways.len()).unwrap_or(1).max(1);
    for way in ways {
        let curve = curve(share, |bytes| {
            let part = Layout::compact(Dtype::UINT8, &[bytes.cast_signed()])?;
            let view = |whole: &Tensor| whole.view(part.clone(), 0);
            way.copy(&view(&dst), &view(&src), None)
        });
        costs.set(*way, curve);
    }
    costs
}

fn ends(from: &Device, to: &Device, bytes: u64) -> Result<(Tensor, Tensor), Error> {
    let layout = Layout::compact(Dtype::UINT8, &[bytes.cast_signed()])?;
    Ok((Tensor::empty(to, &layout)?, Tensor::empty(from, &layout)?))
}

/// The times of one way, from the smallest size up, until the time is over.
fn curve(share: Duration, copy: impl Fn(u64) -> Result<(), Error>) -> Option<Curve> {
    // What is done once, and a machine that is busy just now, do not count.
    copy(SMALLEST_BYTES).ok()?;
    let deadline = Instant::now() + share;
    let mut points: Vec<Point> = Vec::new();
    for bytes in SIZES {
        let last = points.last().copied();
        let expected = last.map_or(0.0, |last| {
            last.seconds * (bytes as f64 / last.bytes as f64)
        });
        let left = deadline.saturating_duration_since(Instant::now());
        // Two copies at least, the first of which touches new memory.
        if expected * 2.0 > left.as_secs_f64() {
            break;
        }
        let seconds = best(deadline, bytes, || copy(bytes))?;
        // More bytes take no less time; what says so is noise.
        let seconds = seconds.max(last.map_or(f64::MIN_POSITIVE, |last| last.seconds));
        points.push(Point { bytes, seconds });
    }
    Curve::try_from(points).ok()
}

/// The shortest of some runs, two at least: short ones are many, as any may be interrupted.
fn best(deadline: Instant, bytes: u64, copy: impl Fn() -> Result<(), Error>) -> Option<f64> {
    let runs = if bytes == SMALLEST_BYTES { 16 } else { 4 };
    let mut best: Option<f64> = None;
    for run in 0..runs {
        let start = Instant::now();
        copy().ok()?;
        let seconds = start.elapsed().as_secs_f64();
        best = Some(best.map_or(seconds, |best| best.min(seconds)));
        if run > 0 && Instant::now() >= deadline {
            break;
        }
    }
    best
}

/// Copies of these sizes are timed.
const SIZES: [u64; 4] = [SMALLEST_BYTES, 128 << 10, 1 << 20, LARGEST_BYTES];
const SMALLEST_BYTES: u64 = 4 << 10;
const LARGEST_BYTES: u64 = 8 << 20;
/// The time that one pair of devices may take, all ways together.
const BUDGET: Duration = Duration::from_millis(45);
