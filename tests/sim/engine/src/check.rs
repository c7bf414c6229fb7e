//! The checker: what an operation uses against what others used, at the moment it starts.

use std::sync::atomic::Ordering;

use crate::clock::Clock;
use crate::memory::Life;
use crate::op::{Body, Use};
use crate::shadow::{Conflict, Found, Mark, Role};
use crate::state::State;
use crate::{Report, ReportKind, Site};

impl State {
    /// Adds a report, once for each pair of calls. The earlier call stands first.
    pub(crate) fn report(
        &mut self,
        kind: ReportKind,
        first: Site,
        second: Option<Site>,
        bytes: Option<(u64, u64)>,
        detail: String,
    ) {
        let (first, second) = match second {
            Some(second) if second.number() < first.number() => (second, Some(first)),
            second => (first, second),
        };
        let pair = (first.number(), second.map_or(0, |site| site.number()));
        // Two uses without an order are one finding, whatever roles they were met in.
        let class = if kind.is_unordered() {
            ReportKind::Race
        } else {
            kind
        };
        if self.reported.insert((class, pair.0, pair.1)) {
            self.reports.push(Report {
                kind,
                first,
                second,
                bytes,
                streams: None,
                detail,
            });
            self.reports_made.fetch_add(1, Ordering::Release);
        }
    }

    /// The same for two uses, whose streams the report names too.
    fn report_uses(
        &mut self,
        kind: ReportKind,
        one: Mark,
        other: Mark,
        bytes: (u64, u64),
        detail: String,
    ) {
        let known = self.reports.len();
        self.report(kind, one.site, Some(other.site), Some(bytes), detail);
        if let Some(report) = self.reports.get_mut(known) {
            let is_turned = report.first != one.site;
            let (first, second) = if is_turned {
                (other, one)
            } else {
                (one, other)
            };
            report.streams = Some((first.stream, second.stream));
        }
    }

    /// Judges and enters what an operation uses.
    pub(crate) fn check(&mut self, uses: &[Use], mark: Mark, clock: &Clock) {
        if !self.config.checks {
            return;
        }
        for used in uses {
            if self.judge_life(used, mark, clock) {
                self.enter_use(used.start, used.end, used.writes, mark, clock);
            }
        }
    }

    /// Begins a range anew, in which memory was allocated: nothing is known of what was there before.
    pub(crate) fn begin_anew(&mut self, start: u64, end: u64) {
        self.shadow.forget(start, end);
        self.words.forget(start, end);
    }

    /// Enters one use of bytes, and reports what it is in conflict with.
    pub(crate) fn enter_use(
        &mut self,
        start: u64,
        end: u64,
        writes: bool,
        mark: Mark,
        clock: &Clock,
    ) {
        if !self.config.checks {
            return;
        }
        let found = if writes {
            self.shadow.write(start, end, mark, clock)
        } else {
            self.shadow.read(start, end, mark, clock)
        };
        self.tell(found, mark);
    }

    /// Reports whose work of a vendor still uses memory that this vendor gives up, and others keep.
    pub(crate) fn check_given_up(
        &mut self,
        vendor: u32,
        bytes: (u64, u64),
        mark: Mark,
        clock: &Clock,
    ) {
        if !self.config.checks {
            return;
        }
        let mut conflicts = self.shadow.unordered(bytes.0, bytes.0 + bytes.1, clock);
        conflicts.retain(|conflict| {
            let stream = self.streams.get(&conflict.earlier.stream);
            stream.is_none_or(|stream| self.config.vendor_of(stream.device) == vendor)
        });
        let pending = self.queues.iter().flat_map(|queue| &queue.ops);
        for op in pending {
            let is_own = self
                .streams
                .get(&op.stream)
                .is_some_and(|s| self.config.vendor_of(s.device) == vendor);
            let meets = |used: &&Use| used.start < bytes.0 + bytes.1 && bytes.0 < used.end;
            if let Some(used) = op.uses.iter().find(meets).filter(|_| is_own) {
                conflicts.push(Conflict {
                    earlier: Mark {
                        role: Role::Work,
                        stream: op.stream,
                        site: op.site,
                        ..mark
                    },
                    start: used.start,
                    bytes: used.end - used.start,
                });
            }
        }
        let found = Found {
            conflicts,
            unwritten: None,
        };
        self.tell(found, mark);
    }

    fn tell(&mut self, found: Found, mark: Mark) {
        for Conflict {
            earlier,
            start,
            bytes,
        } in found.conflicts
        {
            let detail = self.missing_edge(earlier, mark);
            let kind = kind_of(earlier.role, mark.role);
            self.report_uses(kind, earlier, mark, (start, bytes), detail);
        }
        if let Some(bytes) = found.unwritten.filter(|_| self.config.report_uninitialised) {
            let allocated = self.memory.find(bytes.0).map(|a| a.site);
            let (first, second) = allocated.map_or((mark.site, None), |a| (a, Some(mark.site)));
            let detail = "these bytes are read, and nobody wrote them".to_owned();
            self.report(
                ReportKind::Uninitialised,
                first,
                second,
                Some(bytes),
                detail,
            );
        }
    }

    /// Whether the memory may be used now; else says why not.
    fn judge_life(&mut self, used: &Use, mark: Mark, clock: &Clock) -> bool {
        let Some((start, id)) = used.allocation else {
            return true;
        };
        let Some(allocation) = self.memory.by_id(start, id) else {
            return true;
        };
        let bytes = (used.start, used.end - used.start);
        let (site, life) = (allocation.site, allocation.life);
        match life {
            Life::Live => true,
            Life::Promised => {
                let allocates = Mark {
                    role: Role::Allocate,
                    stream: self.allocates_on(start).unwrap_or(mark.stream),
                    site,
                    ..mark
                };
                let detail = self.missing_edge(allocates, mark);
                let kind = ReportKind::UseBeforeAllocation;
                self.report_uses(kind, allocates, mark, bytes, detail);
                true
            }
            Life::Freed(free) if clock.knows(free.epoch) => {
                let detail = "the memory was freed before, and the order is sure; \
                              free it behind its last use"
                    .to_owned();
                self.report_uses(ReportKind::UseAfterFree, free, mark, bytes, detail);
                false
            }
            Life::Freed(free) => {
                let detail = self.missing_edge(mark, free);
                self.report_uses(ReportKind::FreeInUse, free, mark, bytes, detail);
                false
            }
        }
    }

    /// Says which edge would order two uses.
    fn missing_edge(&self, one: Mark, other: Mark) -> String {
        let (one, other) = if one.site.number() <= other.site.number() {
            (one, other)
        } else {
            (other, one)
        };
        let vendor = |mark: Mark| {
            let stream = self.streams.get(&mark.stream);
            stream.map(|stream| self.config.vendor_of(stream.device))
        };
        let vendors = vendor(one).zip(vendor(other));
        if vendors.is_some_and(|(one, other)| one != other) {
            return format!(
                "nothing orders `{}` on stream {} behind `{}` on stream {}, which is another vendor's: no \
                 event orders these, so synchronize stream {} in between",
                other.site.name(),
                other.stream,
                one.site.name(),
                one.stream,
                one.stream,
            );
        }
        missing_edge(one, other)
    }

    /// The stream on which an allocation is still to come.
    fn allocates_on(&self, start: u64) -> Option<u64> {
        let mut ops = self.queues.iter().flat_map(|queue| &queue.ops);
        let op = ops.find(|op| matches!(op.body, Body::Allocate(at) if at == start));
        op.map(|op| op.stream)
    }

    /// The report that something was left.
    pub(crate) fn leak(site: Site, bytes: Option<(u64, u64)>, what: &str) -> Report {
        let detail = format!("{what} was left");
        Report {
            kind: ReportKind::Leak,
            first: site,
            second: None,
            bytes,
            streams: None,
            detail,
        }
    }
}

impl ReportKind {
    const fn is_unordered(self) -> bool {
        matches!(
            self,
            Self::Race | Self::HostRace | Self::FreeInUse | Self::UseBeforeAllocation
        )
    }
}

fn kind_of(one: Role, other: Role) -> ReportKind {
    let has = |role| one == role || other == role;
    if has(Role::Free) {
        ReportKind::FreeInUse
    } else if has(Role::Allocate) {
        ReportKind::UseBeforeAllocation
    } else if has(Role::Host) {
        ReportKind::HostRace
    } else {
        ReportKind::Race
    }
}

/// Says which edge would order two uses of one vendor, of which `one` was called for first.
fn missing_edge(one: Mark, other: Mark) -> String {
    match (one.stream, other.stream) {
        (0, 0) => "host code did both".to_owned(),
        (stream, 0) => format!(
            "nothing orders `{}` of the host behind `{}` on stream {stream}: \
             synchronize the stream, or an event behind it, in between",
            other.site.name(),
            one.site.name(),
        ),
        (0, stream) => format!(
            "nothing orders `{}` on stream {stream} behind `{}` of the host: submit it later, \
             or let the stream wait for an event that the host completes then",
            other.site.name(),
            one.site.name(),
        ),
        (first, second) if first == second => {
            format!("both are on stream {first}, which was not reached in order",)
        }
        (first, second) => format!(
            "nothing orders `{}` on stream {second} behind `{}` on stream {first}: record an event \
             on stream {first} behind the one and let stream {second} wait for it before the other",
            other.site.name(),
            one.site.name(),
        ),
    }
}
