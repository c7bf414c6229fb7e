//! All memory of a table: lines for records and lists, and the slots of blocks that were cut.

use super::words::{AtomicU32, AtomicU64};
use crate::chunks::Chunks;

/// One cache line: a record, or a list of a block's owners.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [AtomicU64; WORDS]);

/// The slots of the parts of a block.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Cut(pub(super) [AtomicU32; 1 << CUT_BITS]);

/// Memory that is used again for the same kind of thing and given back with the table only.
#[derive(Debug)]
pub(super) struct Arena {
    lines: Chunks<Line>,
    cuts: Chunks<Cut>,
}

/// The free lines of one shard, by kind. Lines go back to the shard that took them.
#[derive(Debug, Default)]
pub(super) struct Pool {
    records: Vec<u32>,
    lists: Vec<u32>,
}

impl Arena {
    /// An arena without a chunk.
    pub(super) fn new() -> Self {
        Self {
            lines: Chunks::new(FIRST_LINES),
            cuts: Chunks::new(FIRST_CUTS),
        }
    }

    /// The line of a handle.
    #[inline(always)]
    pub(super) fn line(&self, handle: u32) -> Option<&Line> {
        self.lines.get(handle)
    }

    /// The slots of a handle.
    #[inline(always)]
    pub(super) fn cut(&self, handle: u32) -> Option<&Cut> {
        self.cuts.get(handle)
    }

    /// Slots without owners; `None` when there is no handle left.
    pub(super) fn take_cut(&self) -> Option<u32> {
        self.cuts
            .grow(|| Cut(std::array::from_fn(|_| AtomicU32::new(0))))
    }

    /// A line for a record; `None` when there is no handle left.
    pub(super) fn take_record(&self, pool: &mut Pool) -> Option<u32> {
        pool.records.pop().or_else(|| self.take_line())
    }

    /// Gives a record's line back to the shard.
    pub(super) fn give_record(pool: &mut Pool, handle: u32) {
        pool.records.push(handle);
    }

    /// A line for a list; `None` when there is no handle left.
    pub(super) fn take_list(&self, pool: &mut Pool) -> Option<u32> {
        pool.lists.pop().or_else(|| self.take_line())
    }

    /// Gives a list's line back to the shard.
    pub(super) fn give_list(pool: &mut Pool, handle: u32) {
        pool.lists.push(handle);
    }

    fn take_line(&self) -> Option<u32> {
        self.lines
            .grow(|| Line(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

/// Words in a line.
pub(super) const WORDS: usize = 8;

/// A block is cut into so many parts, as a power of two. The model checker pays for each slot.
pub(super) const CUT_BITS: u32 = if cfg!(loom) { 2 } else { 5 };

const FIRST_LINES: u32 = if cfg!(loom) { 2 } else { 10 };
const FIRST_CUTS: u32 = if cfg!(loom) { 1 } else { 6 };
