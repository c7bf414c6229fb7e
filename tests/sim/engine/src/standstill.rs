//! Standstills (deadlocks of streams): what waits, what it waits for, and what stands behind it.

use crate::op::Body;
use crate::schedule::Blocked;
use crate::state::State;
use crate::{Report, ReportKind, Site};

impl State {
    /// Whether a host function runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.queues.iter().any(|queue| queue.busy.is_some())
    }

    /// The report that nothing can run before host code does something.
    pub(crate) fn stands_still(&self) -> Option<Report> {
        if self.pending == 0 || self.held > 0 || self.is_busy() || !self.runnable().is_empty() {
            return None;
        }
        let waits = |&queue: &usize| !matches!(self.blocked(queue), Some(Blocked::Empty));
        (0..self.queues.len())
            .find(waits)
            .map(|queue| self.standstill_at(queue))
    }

    /// The report about the head of one queue that waits.
    pub(crate) fn standstill_at(&self, queue: usize) -> Report {
        let head = self.queues.get(queue).and_then(|q| q.ops.front());
        let first = head.map_or(Site::new("nothing"), |op| op.site);
        let (what, second) = match self.blocked(queue) {
            Some(Blocked::On(point)) => match point.queue {
                Some(at) => (
                    format!(
                        "{}, which stands in hardware queue {at} and cannot run",
                        point.site
                    ),
                    Some(point.site),
                ),
                None => (
                    format!("the host event of {}", point.site),
                    Some(point.site),
                ),
            },
            Some(Blocked::Word(address)) => {
                let writer = self.writer_of(address);
                let by = writer.map_or_else(
                    || "which only host code can write".to_owned(),
                    |site| format!("which {site} would write and cannot run"),
                );
                (format!("the word at {address:#x}, {by}"), writer)
            }
            Some(Blocked::Busy | Blocked::Empty) | None => ("nothing".to_owned(), None),
        };
        let stream = head.map_or(0, |op| op.stream);
        let detail = format!(
            "stream {stream} waits for {what}; behind it in hardware queue {queue} {}",
            self.behind(queue)
        );
        Report {
            kind: ReportKind::Standstill,
            first,
            second,
            bytes: None,
            streams: None,
            detail,
        }
    }

    /// Adds a report that was made for itself.
    pub(crate) fn add(&mut self, report: Report) {
        let Report {
            kind,
            first,
            second,
            bytes,
            detail,
            ..
        } = report;
        self.report(kind, first, second, bytes, detail);
    }

    fn writer_of(&self, address: u64) -> Option<Site> {
        let writes = |body: &Body| matches!(body, Body::WriteWord(word) if word.address == address);
        let mut ops = self.queues.iter().flat_map(|queue| &queue.ops);
        ops.find(|op| writes(&op.body)).map(|op| op.site)
    }

    fn behind(&self, queue: usize) -> String {
        let ops = self.queues.get(queue).map(|q| q.ops.iter().skip(1));
        let names: Vec<String> = ops
            .into_iter()
            .flatten()
            .take(8)
            .map(|op| format!("{} of stream {}", op.site, op.stream))
            .collect();
        if names.is_empty() {
            return "stands nothing".to_owned();
        }
        format!("stand {}", names.join(", "))
    }
}
