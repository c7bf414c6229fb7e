//! What is measured in a bounded time, by copies whose times are made up.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::route_data::kinds::Way;
use crate::routes::measure::Stopwatch;

const BUDGET: Duration = Duration::from_millis(45);
const MIB: u64 = 1 << 20;

/// A clock that goes on by what copies take, and no other.
struct Clock {
    began: Instant,
    past: Cell<Duration>,
}

impl Clock {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            past: Cell::default(),
        }
    }

    fn now(&self) -> Instant {
        self.began + self.past.get()
    }

    fn pass(&self, seconds: f64) {
        self.past
            .set(self.past.get() + Duration::from_secs_f64(seconds));
    }
}

/// A copy in one piece over a link.
fn direct(bytes: u64, rate: f64) -> f64 {
    20e-6 + bytes as f64 / rate
}

/// A copy through host memory: parts go over one link and then over the other one, of which both are busy where
/// there are more parts than two.
fn staged(bytes: u64, rate: f64) -> f64 {
    let parts = bytes.div_ceil(MIB / 2);
    let overlapped = if parts < 4 { 0 } else { bytes - MIB / 2 };
    50e-6 + (bytes * 2 - overlapped) as f64 / rate
}

#[test]
fn what_is_told_of_long_copies_is_near_the_truth_also_over_slow_links() {
    for rate in [0.35e9, 0.5e9, 0.7e9, 1e9, 3e9, 10e9, 50e9] {
        let clock = Clock::new();
        let now = || clock.now();
        let mut stopwatch = Stopwatch::new(&now);
        let copy = |way, bytes| {
            clock.pass(if way == Way::Staged {
                staged(bytes, rate)
            } else {
                direct(bytes, rate)
            });
            Ok(())
        };
        let curves = stopwatch.curves(&[Way::BySource, Way::Staged], BUDGET, copy);
        assert!(
            clock.past.get() < Duration::from_millis(50),
            "{rate}: {:?}",
            clock.past
        );
        for ((way, curve), truth) in curves.into_iter().zip([direct, staged]) {
            let told = curve.unwrap().seconds(64 * MIB);
            let ratio = told / truth(64 * MIB, rate);
            assert!((0.8..1.25).contains(&ratio), "{way:?} at {rate}: {ratio}");
        }
    }
}

#[test]
fn what_one_way_leaves_goes_to_those_behind_it() {
    let rate = 0.3e9;
    let told = |first: f64, fails: bool| {
        let clock = Clock::new();
        let now = || clock.now();
        let longest = Cell::new(0);
        let copy = |way, bytes| {
            if way == Way::BySource {
                clock.pass(direct(bytes, first));
                return if fails {
                    Err(Error::misuse("copy", "not this way"))
                } else {
                    Ok(())
                };
            }
            longest.set(longest.get().max(bytes));
            clock.pass(direct(bytes, rate));
            Ok(())
        };
        let ways = [Way::BySource, Way::Staged];
        let _curves = Stopwatch::new(&now).curves(&ways, BUDGET, copy);
        longest.get()
    };
    let beside_a_slow_one = told(rate, false);
    for beside in [told(50e9, false), told(rate, true)] {
        assert!(
            beside * 4 > beside_a_slow_one * 5,
            "{beside} beside {beside_a_slow_one}"
        );
    }
}
