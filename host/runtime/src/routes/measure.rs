//! Measuring: short copies of a few sizes between two devices, in a bounded time.

use std::time::{Duration, Instant};

use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::devices::device::Device;
use crate::error::Error;
use crate::route_data::costs::{
    Arrangement, Class, Curve, EndClass, Point, SHORTEST_ROW, WayCosts,
};
use crate::route_data::kinds::Way;
use crate::tensors::tensor::Tensor;

/// Times each way, and says how long that takes on a machine with nothing else to do. What fails, or is too
/// slow to be timed, is not measured.
pub(super) fn measure(
    (from, to): (&Device, &Device),
    class: Class,
    ways: &[Way],
    budget: Duration,
) -> (WayCosts, Duration) {
    let mut costs = WayCosts::default();
    let mut took = Duration::ZERO;
    let ends = Sample::new(from, class.source)
        .and_then(|src| Ok((src, Sample::new(to, class.destination)?)));
    let Ok((src, dst)) = ends else {
        return (costs, took);
    };
    let share = budget / u32::try_from(ways.len()).unwrap_or(1).max(1);
    for way in ways {
        let copy = |bytes| way.copy(&dst.of(bytes)?, &src.of(bytes)?, None);
        // What a driver does once, as making a context or a kernel, is no cost of a copy, and takes
        // no time from the others.
        if copy(SMALLEST_BYTES).is_err() {
            continue;
        }
        costs.set(*way, curve(Instant::now() + share, copy, &mut took));
    }
    (costs, took)
}

/// One end of the copies that are timed.
struct Sample {
    memory: Tensor,
    arrangement: Arrangement,
}

impl Sample {
    fn new(device: &Device, class: EndClass) -> Result<Self, Error> {
        let span = arranged(class.arrangement, LARGEST_BYTES)?.span();
        let memory = Layout::compact(Dtype::UINT8, &[span.max])?;
        Ok(Self {
            memory: Tensor::empty_of(device, &memory, class.residence.kind())?,
            arrangement: class.arrangement,
        })
    }

    fn of(&self, bytes: u64) -> Result<Tensor, Error> {
        Ok(self.memory.view(arranged(self.arrangement, bytes)?, 0))
    }
}

/// So many bytes as rows: at one pitch, the shortest that are pitched, since longer ones cost less; or
/// scattered, as a transposed matrix is. The shape is the same for all, so that any can be copied to any.
fn arranged(arrangement: Arrangement, bytes: u64) -> Result<Layout, Error> {
    let row = SHORTEST_ROW / ELEMENT_BYTES;
    let rows = bytes.cast_signed() / SHORTEST_ROW;
    let strides = match arrangement {
        Arrangement::Compact => [row, 1],
        Arrangement::Pitched => [2 * row, 1],
        Arrangement::Scattered => [1, rows],
    };
    Ok(Layout::strided(Dtype::UINT32, &[rows, row], &strides)?)
}

/// The times of one way, from the smallest size up, until the time is over. Adds up what the copies take.
fn curve(
    deadline: Instant,
    copy: impl Fn(u64) -> Result<(), Error>,
    took: &mut Duration,
) -> Option<Curve> {
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
        let (best, runs) = best(deadline, bytes, || copy(bytes))?;
        *took += best * runs;
        let seconds = best.as_secs_f64();
        // More bytes take no less time; what says so is noise.
        let seconds = seconds.max(last.map_or(f64::MIN_POSITIVE, |last| last.seconds));
        points.push(Point { bytes, seconds });
    }
    Curve::try_from(points).ok()
}

/// The shortest of some runs, two at least: short ones are many, as any may be interrupted, and a machine
/// that is busy just now does not count. Says how many they were.
fn best(
    deadline: Instant,
    bytes: u64,
    copy: impl Fn() -> Result<(), Error>,
) -> Option<(Duration, u32)> {
    let runs = if bytes == SMALLEST_BYTES { 16 } else { 4 };
    let mut best: Option<(Duration, u32)> = None;
    for run in 1..=runs {
        let start = Instant::now();
        copy().ok()?;
        let time = start.elapsed();
        best = Some((best.map_or(time, |(best, _)| best.min(time)), run));
        if run > 1 && Instant::now() >= deadline {
            break;
        }
    }
    best
}

/// Copies of these sizes are timed.
const SIZES: [u64; 4] = [SMALLEST_BYTES, 128 << 10, 1 << 20, LARGEST_BYTES];
const SMALLEST_BYTES: u64 = 4 << 10;
const LARGEST_BYTES: u64 = 8 << 20;
const ELEMENT_BYTES: i64 = 4;
