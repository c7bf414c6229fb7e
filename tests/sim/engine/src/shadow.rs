//! The shadow of memory: for each byte, who wrote it last and who read it since.

use std::collections::BTreeMap;

use crate::Site;
use crate::clock::{Clock, Epoch};

/// What somebody did, as far as it decides the kind of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Work,
    /// A write of a word, which others may wait for.
    Word,
    /// A wait for a word.
    Poll,
    Host,
    Free,
    Allocate,
}

impl Role {
    /// Whether two uses need an order, where one of them writes. Words are there to be written while others look at
    /// them; what a wait sees of other work is its own affair, as long as the memory is there.
    const fn needs_order(self, other: Self) -> bool {
        let is_free_of_order = matches!(
            (self, other),
            (
                Self::Word | Self::Poll,
                Self::Word | Self::Poll | Self::Host
            ) | (Self::Host, Self::Word | Self::Poll)
                | (Self::Poll, Self::Work)
                | (Self::Work, Self::Poll)
        );
        !is_free_of_order
    }
}

/// Somebody who used bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) epoch: Epoch,
    pub(crate) site: Site,
    pub(crate) role: Role,
    /// 0 is the host.
    pub(crate) stream: u64,
}

/// Two uses of the same bytes that nothing orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conflict {
    pub(crate) earlier: Mark,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// What was found in a range.
#[derive(Default, Debug)]
pub(crate) struct Found {
    pub(crate) conflicts: Vec<Conflict>,
    /// First address and length of bytes that were read and never written.
    pub(crate) unwritten: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Cell {
    end: u64,
    write: Option<Mark>,
    reads: Vec<Mark>,
    written: bool,
}

impl Cell {
    fn conflict(&self, start: u64, role: Role, clock: &Clock, reads_too: bool) -> Option<Conflict> {
        let unknown = |mark: &&Mark| !clock.knows(mark.epoch) && role.needs_order(mark.role);
        let reads = self.reads.iter().filter(|_| reads_too);
        let earlier = self.write.iter().chain(reads).find(unknown)?;
        Some(Conflict {
            earlier: *earlier,
            start,
            bytes: self.end - start,
        })
    }

    fn read(&mut self, start: u64, mark: Mark, clock: &Clock, found: &mut Found) {
        found
            .conflicts
            .extend(self.conflict(start, mark.role, clock, false));
        // Host code writes words that streams wait for.
        if !self.written && mark.role != Role::Poll {
            found.unwritten.get_or_insert((start, self.end - start));
        }
        self.reads.retain(|read| !clock.knows(read.epoch));
        self.reads.push(mark);
    }
}

/// Intervals of bytes with the same past. Addresses of the arena and of the host never meet.
#[derive(Default, Debug)]
pub(crate) struct Shadow {
    cells: BTreeMap<u64, Cell>,
}

impl Shadow {
    /// Enters a read, and says what it is in conflict with.
    pub(crate) fn read(&mut self, start: u64, end: u64, mark: Mark, clock: &Clock) -> Found {
        let mut found = Found::default();
        if let Some(cell) = self.exact(start, end) {
            cell.read(start, mark, clock, &mut found);
            return found;
        }
        self.cut(start, end);
        let mut gaps = Vec::new();
        let mut at = start;
        for (&from, cell) in self.cells.range_mut(start..end) {
            if at < from {
                gaps.push((at, from));
            }
            at = cell.end;
            cell.read(from, mark, clock, &mut found);
        }
        if at < end {
            gaps.push((at, end));
        }
        for (from, end) in gaps {
            let cell = Cell {
                end,
                write: None,
                reads: vec![mark],
                written: true,
            };
            self.cells.insert(from, cell);
        }
        found
    }

    /// Enters a write, and says what it is in conflict with. The range is one interval afterwards.
    pub(crate) fn write(&mut self, start: u64, end: u64, mark: Mark, clock: &Clock) -> Found {
        let mut found = Found::default();
        let written = mark.role != Role::Allocate;
        if let Some(cell) = self.exact(start, end) {
            found
                .conflicts
                .extend(cell.conflict(start, mark.role, clock, true));
            cell.write = Some(mark);
            cell.reads.clear();
            cell.written = written;
            return found;
        }
        self.cut(start, end);
        while let Some((&from, cell)) = self.cells.range(start..end).next() {
            found
                .conflicts
                .extend(cell.conflict(from, mark.role, clock, true));
            self.cells.remove(&from);
        }
        self.cells.insert(
            start,
            Cell {
                end,
                write: Some(mark),
                reads: Vec::new(),
                written,
            },
        );
        found
    }

    /// What a write of the range would be in conflict with, which is not entered.
    pub(crate) fn unordered(&self, start: u64, end: u64, clock: &Clock) -> Vec<Conflict> {
        let before = self.cells.range(..start).next_back();
        let inside = before.filter(|(_, cell)| cell.end > start).into_iter();
        let cells = inside.chain(self.cells.range(start..end));
        cells
            .filter_map(|(&from, cell)| cell.conflict(from, Role::Free, clock, true))
            .collect()
    }

    /// Begins the range anew: nothing is known of it.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        self.cut(start, end);
        while let Some((&from, _)) = self.cells.range(start..end).next() {
            self.cells.remove(&from);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Drops the marks that the host knows. Right only while nothing is pending: whatever comes
    /// then is submitted by the host and knows what the host does.
    pub(crate) fn prune(&mut self, host: &Clock) {
        self.cells.retain(|_, cell| {
            cell.write.take_if(|mark| host.knows(mark.epoch));
            cell.reads.retain(|mark| !host.knows(mark.epoch));
            cell.write.is_some() || !cell.reads.is_empty() || !cell.written
        });
    }

    /// The interval that is just this range, as it mostly is where the same rows are used again: nothing is cut then.
    fn exact(&mut self, start: u64, end: u64) -> Option<&mut Cell> {
        let cell = self.cells.get_mut(&start)?;
        (cell.end == end).then_some(cell)
    }

    /// Cuts intervals so that none crosses an end of the range.
    fn cut(&mut self, start: u64, end: u64) {
        for at in [start, end] {
            let Some((_, cell)) = self.cells.range_mut(..at).next_back() else {
                continue;
            };
            if cell.end > at {
                let behind = cell.clone();
                cell.end = at;
                self.cells.insert(at, behind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Role, Shadow};
    use crate::Site;
    use crate::clock::{Clock, Epoch};

    fn mark(actor: usize) -> Mark {
        let epoch = Epoch { actor, time: 1 };
        Mark {
            epoch,
            site: Site::new("f"),
            role: Role::Work,
            stream: 1,
        }
    }

    #[test]
    fn only_the_bytes_that_both_use_are_in_conflict() {
        let mut shadow = Shadow::default();
        let nothing = Clock::default();
        assert!(shadow.write(10, 20, mark(1), &nothing).conflicts.is_empty());
        assert!(shadow.write(20, 30, mark(2), &nothing).conflicts.is_empty());
        let found = shadow.read(15, 22, mark(3), &nothing).conflicts;
        let ranges: Vec<_> = found.iter().map(|c| (c.start, c.bytes)).collect();
        assert_eq!(ranges, [(15, 5), (20, 2)]);
        assert!(shadow.read(0, 10, mark(3), &nothing).conflicts.is_empty());
    }

    #[test]
    fn two_reads_are_in_no_conflict_and_a_write_is_with_both() {
        let mut shadow = Shadow::default();
        let nothing = Clock::default();
        shadow.read(0, 8, mark(1), &nothing);
        assert!(shadow.read(4, 12, mark(2), &nothing).conflicts.is_empty());
        let mut knows = Clock::default();
        knows.set(Epoch { actor: 1, time: 1 });
        let found = shadow.write(0, 12, mark(3), &knows).conflicts;
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|c| c.earlier.epoch.actor == 2));
    }

    #[test]
    fn pruning_keeps_what_the_host_does_not_know() {
        let mut shadow = Shadow::default();
        let mut host = Clock::default();
        shadow.write(0, 4, mark(1), &host);
        shadow.write(4, 8, mark(2), &host);
        host.set(Epoch { actor: 1, time: 1 });
        shadow.prune(&host);
        assert_eq!(shadow.len(), 1);
        assert_eq!(shadow.read(0, 8, mark(3), &host).conflicts.len(), 1);
    }
}
