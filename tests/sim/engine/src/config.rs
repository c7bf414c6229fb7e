//! What a test chooses: devices, queues, policy, seed, links, faults and what the checker looks at.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Fault, Schedule};

/// Who runs submitted operations, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Worker threads run them as soon as they can, with random delays. Only by this policy work can take
    /// real time ([`Config::paced`]).
    Threads,
    /// A seeded generator picks, at the start of each call and in each blocking wait, what runs next.
    /// A call never runs what it submits itself.
    Seeded,
    /// Nothing runs until a wait needs it, and then only what it depends on. A query that answers
    /// "not done" runs one operation of these afterwards, or another one where these wait for host
    /// code, so that a loop of polls comes to an end.
    #[default]
    Lazy,
}

/// How long work takes that moves bytes, in simulated time. It has its link for itself meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Of each operation; that of a device is taken by its other work too, but waits.
    pub latency_ns: u64,
    /// Of copies and fills.
    pub bytes_per_second: u64,
    /// Of each row of a strided copy: elements that lie side by side at both ends.
    pub row_ns: u64,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            latency_ns: 1_000,
            bytes_per_second: 10_000_000_000,
            row_ns: 0,
        }
    }
}

/// The choices for one engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of devices.
    pub devices: u32,
    /// How many of them each vendor has, one vendor's behind the other's; empty where all are one's. A vendor knows
    /// nothing of what another one registered; all else they have in common.
    pub vendors: Vec<u32>,
    /// Memory of each.
    pub memory_bytes: u64,
    /// Hardware queues of each device, at least 1. A new stream gets one with the fewest streams,
    /// in turn; a queue is in order, so a wait at its head blocks all streams behind it.
    pub queues: usize,
    /// Who runs operations.
    pub policy: Policy,
    /// Of every choice the engine makes.
    pub seed: u64,
    /// What `Seeded` chooses in the generator's place, each step that is absent by its first possibility.
    pub schedule: Option<Schedule>,
    /// Whether the choices of `Seeded` are written down ([`Engine::choices`](crate::Engine::choices)).
    pub notes_choices: bool,
    /// One a device, which goes for its way to the host, for the way back, and inside of it: each of them is a
    /// link. Devices without one get the default.
    pub links: Vec<Link>,
    /// From the first device to the second. Where there is none, the slower of their own goes.
    pub links_between: BTreeMap<(u32, u32), Link>,
    /// Whether work that moves bytes takes its simulated time in truth too, so that a clock outside measures it:
    /// by `Threads`. Simulated time is the machine's then, and what is no such work takes as long as it takes.
    /// By the other policies no thread waits for it.
    pub paced: bool,
    /// What fails.
    pub faults: Vec<Fault>,
    /// After so much time without a call of the engine, everything that can run runs (`Seeded`,
    /// `Lazy`), so that work nobody waits for ends too. `None` switches it off: a replay is exact.
    pub idle: Option<Duration>,
    /// Whether threads take turns (`Seeded`, `Lazy`): a call begins, and a wait goes on, when every
    /// other thread of the process sleeps or wants a turn too, and the seed decides whose it is. A
    /// replay is exact then on any number of threads, in whatever order they wake. On Linux only.
    pub turns: bool,
    /// How long `Seeded` and `Lazy` stand still for a host function before they take it for one
    /// that blocks, and go on beside it. Shorter functions keep the order of everything exact.
    pub host_patience: Duration,
    /// After so long a blocking wait during which nothing could run, a standstill is reported. It
    /// is reported at once where the blocked queues wait for each other.
    pub standstill: Duration,
    /// Whether host code knows, once a host function was called, all that was before it. The
    /// engine cannot see whom the function tells, so it takes it that all were told.
    pub host_functions_inform: bool,
    /// Whether operations run that follow a failed one in its stream; else they are skipped.
    pub run_after_failure: bool,
    /// Whether the checker is told of uses of memory; else nothing is reported of them, and work costs less.
    pub checks: bool,
    /// Whether reads of bytes that nobody wrote are reported. Padding is copied legitimately.
    pub report_uninitialised: bool,
    /// Whether a wait for an event that was never recorded is reported.
    pub report_unrecorded: bool,
    /// The longest random delay before an operation (`Threads`).
    pub delay: Duration,
    /// Number of worker threads (`Threads`), at least 1.
    pub workers: usize,
}

impl Config {
    /// The vendor of a device, by the vendor's index.
    #[must_use]
    pub fn vendor_of(&self, device: u32) -> u32 {
        let mut ends = self.vendors.iter().scan(0, |end: &mut u32, count| {
            *end = end.saturating_add(*count);
            Some(*end)
        });
        let at = ends.position(|end| device < end);
        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 1,
            vendors: Vec::new(),
            memory_bytes: 1 << 30,
            queues: 8,
            policy: Policy::default(),
            seed: 1,
            schedule: None,
            notes_choices: false,
            links: Vec::new(),
            links_between: BTreeMap::new(),
            paced: false,
            faults: Vec::new(),
            idle: Some(Duration::from_millis(50)),
            turns: false,
            host_patience: Duration::from_millis(20),
            standstill: Duration::from_secs(5),
            host_functions_inform: true,
            run_after_failure: true,
            checks: true,
            report_uninitialised: false,
            report_unrecorded: false,
            delay: Duration::ZERO,
            workers: 2,
        }
    }
}
