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
    let ends = Sample::new(from, class.source)
        .and_then(|src| Ok((src, Sample::new(to, class.destination)?)));
    let Ok((src, dst)) = ends else {
        return (costs, Duration::ZERO);
    };
    let copy = |way: Way, bytes| way.copy(&dst.of(bytes)?, &src.of(bytes)?, None);
    let mut stopwatch = Stopwatch::new(&Instant::now);
    for (way, curve) in stopwatch.curves(ways, budget, copy) {
        costs.set(way, curve);
    }
    (costs, stopwatch.took)
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

/// Times copies.
pub(super) struct Stopwatch<'a> {
    now: &'a dyn Fn() -> Instant,
    /// What all copies took together, as long as each does at its best.
    took: Duration,
}

impl<'a> Stopwatch<'a> {
    pub(super) const fn new(now: &'a dyn Fn() -> Instant) -> Self {
        Self {
            now,
            took: Duration::ZERO,
        }
    }

    /// The times of each way that works. They share the time, and what one leaves goes to those behind it.
    pub(super) fn curves(
        &mut self,
        ways: &[Way],
        budget: Duration,
        copy: impl Fn(Way, u64) -> Result<(), Error>,
    ) -> Vec<(Way, Option<Curve>)> {
        // What a driver does once, as making a context or a kernel, is no cost of a copy, and takes
        // no time from the others.
        let works = |way: &Way| copy(*way, SMALLEST_BYTES).is_ok();
        let ways: Vec<Way> = ways.iter().copied().filter(works).collect();
        let deadline = (self.now)() + budget;
        let mut shares: u32 = ways.iter().copied().map(shares_of).sum();
        let mut timed = Vec::with_capacity(ways.len());
        for way in ways {
            let share = self.until(deadline) * shares_of(way) / shares;
            let end = (self.now)() + share;
            timed.push((way, self.curve(end, |bytes| copy(way, bytes))));
            shares -= shares_of(way);
        }
        timed
    }

    /// The times of one way, from the smallest size up, until the time is over. Where there is no time for all
    /// sizes, the last one is the largest that there is time for: that parts of a copy overlap shows in long ones
    /// alone.
    fn curve(
        &mut self,
        deadline: Instant,
        copy: impl Fn(u64) -> Result<(), Error>,
    ) -> Option<Curve> {
        let mut points: Vec<Point> = Vec::new();
        for (at, size) in SIZES.into_iter().enumerate() {
            let last = points.last().copied();
            let bytes = last.map_or(size, |last| {
                let longest = last.longest_within(self.until(deadline));
                let next = SIZES.get(at + 1).copied();
                // The first time is a latency, and tells nothing of longer copies.
                let is_latency = last.bytes == SMALLEST_BYTES;
                let both = size + next.filter(|_| !is_latency).unwrap_or_default();
                if longest >= both {
                    size
                } else {
                    longest.min(next.unwrap_or(size))
                }
            });
            if last.is_some_and(|last| bytes < last.bytes * 2) {
                break;
            }
            let seconds = self.best(deadline, bytes, || copy(bytes))?.as_secs_f64();
            // More bytes take no less time; what says so is noise.
            let seconds = seconds.max(last.map_or(f64::MIN_POSITIVE, |last| last.seconds));
            points.push(Point { bytes, seconds });
        }
        Curve::try_from(points).ok()
    }

    /// The shortest of some runs, two at least: short ones are many, as any may be interrupted, and a machine
    /// that is busy just now does not count. Half of the time is left for longer ones.
    fn best(
        &mut self,
        deadline: Instant,
        bytes: u64,
        copy: impl Fn() -> Result<(), Error>,
    ) -> Option<Duration> {
        let most = if bytes == SMALLEST_BYTES { 16 } else { 4 };
        let half = self.until(deadline) / 2;
        let (mut best, mut runs) = (Duration::MAX, 0);
        // The first of two touches new memory.
        while runs < 2 || (runs < most && best + half <= self.until(deadline)) {
            let start = (self.now)();
            copy().ok()?;
            best = best.min((self.now)().saturating_duration_since(start));
            runs += 1;
        }
        self.took += best * runs;
        Some(best)
    }

    fn until(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since((self.now)())
    }
}
/// A copy through host memory moves each byte twice.
const fn shares_of(way: Way) -> u32 {
    match way {
        Way::Staged => 2,
        _ => 1,
    }
}

impl Point {
    /// The most bytes that two copies could have, if each byte took what it does here.
    fn longest_within(self, time: Duration) -> u64 {
        let one = Duration::from_secs_f64(self.seconds * 2.0)
            .as_nanos()
            .max(1);
        let bytes = u128::from(self.bytes) * time.as_nanos() / one;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        bytes / SMALLEST_BYTES * SMALLEST_BYTES
    }
}

/// Copies of these sizes are timed.
const SIZES: [u64; 4] = [SMALLEST_BYTES, 128 << 10, 1 << 20, LARGEST_BYTES];
const SMALLEST_BYTES: u64 = 4 << 10;
const LARGEST_BYTES: u64 = 8 << 20;
const ELEMENT_BYTES: i64 = 4;
