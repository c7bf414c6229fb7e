//! Links: which one an operation moves its bytes over, how long it has that for itself, and how busy each was.

use std::collections::BTreeMap;

use crate::config::Link;
use crate::memory::Memory;
use crate::op::Body;
use crate::{Config, MemoryKind};

/// What a link leads from or to: a device's memory, or that of the host, pinned and managed memory included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum End {
    /// The host's.
    Host,
    /// That of the device with this number.
    Device(u32),
}

/// How a link was used since it was asked last, in simulated time: that of the machine, where work takes real time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LinkUse {
    /// Where the bytes came from.
    pub from: End,
    /// Where they went.
    pub to: End,
    /// Of the device whose stream moved them, where both ends are the host's.
    pub device: Option<u32>,
    /// How many operations had it.
    pub operations: u64,
    /// How many bytes they moved.
    pub bytes: u64,
    /// How long it was had by one of them.
    pub busy_ns: u64,
    /// When the first of them began, and the last one ended.
    pub first_ns: u64,
    /// As above.
    pub last_ns: u64,
}

/// A link by its ends, and by the device of the stream where bytes stay on the host.
type Route = (End, End, Option<u32>);

/// What is known of each link that was used.
#[derive(Debug, Default)]
pub(crate) struct Links(BTreeMap<Route, Line>);

#[derive(Debug, Default)]
struct Line {
    /// From when on nobody has it.
    free_ns: u64,
    used: Option<LinkUse>,
}

/// What an operation does to its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    route: Route,
    bytes: u64,
    took_ns: u64,
}

impl Links {
    /// Gives an operation its link as soon as it is free, and from `ready_ns` on: when it begins and ends.
    pub(crate) fn occupy(&mut self, load: Load, ready_ns: u64) -> (u64, u64) {
        let (from, to, device) = load.route;
        let line = self.0.entry(load.route).or_default();
        let begin = ready_ns.max(line.free_ns);
        let end = begin.saturating_add(load.took_ns);
        line.free_ns = end;
        let used = line.used.get_or_insert(LinkUse {
            from,
            to,
            device,
            operations: 0,
            bytes: 0,
            busy_ns: 0,
            first_ns: begin,
            last_ns: end,
        });
        used.operations += 1;
        used.bytes = used.bytes.saturating_add(load.bytes);
        used.busy_ns = used.busy_ns.saturating_add(load.took_ns);
        used.last_ns = end;
        (begin, end)
    }

    /// How each was used.
    pub(crate) fn uses(&self) -> impl Iterator<Item = LinkUse> {
        self.0.values().filter_map(|line| line.used)
    }

    /// The same, which is then forgotten.
    pub(crate) fn take(&mut self) -> Vec<LinkUse> {
        let lines = self.0.values_mut();
        lines.filter_map(|line| line.used.take()).collect()
    }
}

impl Load {
    /// The load of an operation on a stream of `device`; `None` where it moves no bytes.
    pub(crate) fn of(body: &Body, device: u32, memory: &Memory, config: &Config) -> Option<Self> {
        let ((target, source), bytes, rows) = match body {
            Body::Copy {
                target,
                source,
                bytes,
            } => ((*target, *source), *bytes, 0),
            Body::Fill { target, rows, .. } => {
                ((*target, *target), rows.bytes.saturating_mul(rows.count), 0)
            }
            Body::Strided(walk) => (walk.first(), walk.volume(), walk.rows()),
            Body::Host(_)
            | Body::Record(_)
            | Body::Wait(_)
            | Body::WaitWord(..)
            | Body::WriteWord(_)
            | Body::Allocate(_)
            | Body::Free(_) => return None,
        };
        let [from, to] = [source, target].map(|at| end_of(memory, at));
        let is_of_host = (from, to) == (End::Host, End::Host);
        let link = link(config, device, from, to);
        let speed = u128::from(link.bytes_per_second.max(1));
        let moved = u128::from(bytes) * 1_000_000_000 / speed;
        let took_ns = link
            .latency_ns
            .saturating_add(link.row_ns.saturating_mul(rows))
            .saturating_add(u64::try_from(moved).unwrap_or(u64::MAX));
        Some(Self {
            route: (from, to, is_of_host.then_some(device)),
            bytes,
            took_ns,
        })
    }
}

fn end_of(memory: &Memory, at: u64) -> End {
    let found = memory
        .find(at)
        .filter(|found| found.kind == MemoryKind::Device);
    found.map_or(End::Host, |found| End::Device(found.device))
}

/// The link between two ends. Without one of their own, devices are as far apart as the slower of them is from the
/// host.
fn link(config: &Config, device: u32, from: End, to: End) -> Link {
    let own = |device: u32| of_device(config, device);
    match (from, to) {
        (End::Host, End::Host) => own(device),
        (End::Host, End::Device(one)) | (End::Device(one), End::Host) => own(one),
        (End::Device(one), End::Device(other)) if one == other => own(one),
        (End::Device(one), End::Device(other)) => {
            let between = config.links_between.get(&(one, other)).copied();
            between.unwrap_or_else(|| own(one).slower(own(other)))
        }
    }
}

/// The link of a device to the host and inside of itself.
pub(crate) fn of_device(config: &Config, device: u32) -> Link {
    let at = usize::try_from(device).ok();
    let link = at.and_then(|at| config.links.get(at));
    link.copied().unwrap_or_default()
}

impl Link {
    fn slower(self, other: Self) -> Self {
        Self {
            latency_ns: self.latency_ns.max(other.latency_ns),
            bytes_per_second: self.bytes_per_second.min(other.bytes_per_second),
            row_ns: self.row_ns.max(other.row_ns),
        }
    }
}
