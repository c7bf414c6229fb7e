//! All memory of a table: lines for records and page lists, and the leaves of the tree.

use super::{
    chunks::Chunks,
    parts::FAN,
    words::{AtomicU32, AtomicU64},
};

/// One cache line: a record, or a part of a page list.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [AtomicU64; WORDS]);

/// The slots of a leaf's pages.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Leaf(pub(super) [AtomicU32; FAN]);

/// The slots of a page's granules.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Granules(pub(super) [AtomicU32; GRANULES]);

/// Memory that is used again for the same kind of thing and given back with the table only.
#[derive(Debug)]
pub(super) struct Arena {
    lines: Chunks<Line>,
    leaves: Chunks<Leaf>,
    granules: Chunks<Granules>,
}

/// The free lines of one shard, by kind. Lines go back to the shard that took them.
#[derive(Debug, Default)]
pub(super) struct Pool {
    records: Vec<u32>,
    lists: [Vec<u32>; CLASSES],
}

impl Arena {
    /// An arena without a chunk.
    pub(super) fn new() -> Self {
        Self {
            lines: Chunks::new(FIRST_LINES),
            leaves: Chunks::new(FIRST_LEAVES),
            granules: Chunks::new(FIRST_GRANULES),
        }
    }

    /// The line of a handle.
    #[inline]
    pub(super) fn line(&self, handle: u32) -> Option<&Line> {
        self.lines.get(handle)
    }

    /// The line of a handle and those that follow it.
    #[inline]
    pub(super) fn lines(&self, handle: u32) -> Option<&[Line]> {
        self.lines.from(handle)
    }

    /// The leaf of a handle.
    #[inline]
    pub(super) fn leaf(&self, handle: u32) -> Option<&Leaf> {
        self.leaves.get(handle)
    }

    /// The granules of a handle.
    #[inline]
    pub(super) fn granules(&self, handle: u32) -> Option<&Granules> {
        self.granules.get(handle)
    }

    /// Granules without owners; `None` when there is no handle left.
    pub(super) fn take_granules(&self) -> Option<u32> {
        self.granules
            .grow(0, || Granules(std::array::from_fn(|_| AtomicU32::new(0))))
    }

    /// A leaf without owners; `None` when there is no handle left.
    pub(super) fn take_leaf(&self) -> Option<u32> {
        self.leaves
            .grow(0, || Leaf(std::array::from_fn(|_| AtomicU32::new(0))))
    }

    /// A line for a record; `None` when there is no handle left.
    pub(super) fn take_record(&self, pool: &mut Pool) -> Option<u32> {
        pool.records.pop().or_else(|| self.grow(0))
    }

    /// Gives a record's line back to the shard.
    pub(super) fn give_record(pool: &mut Pool, handle: u32) {
        pool.records.push(handle);
    }

    /// The `1 << class` lines of a page list; `None` when there is no handle left.
    pub(super) fn take_list(&self, pool: &mut Pool, class: u32) -> Option<u32> {
        let free = pool.lists.get_mut(usize::try_from(class).ok()?)?;
        free.pop().or_else(|| self.grow(class))
    }

    /// Gives a page list's lines back to the shard.
    pub(super) fn give_list(pool: &mut Pool, handle: u32, class: u32) {
        let class = usize::try_from(class).unwrap_or(usize::MAX);
        if let Some(free) = pool.lists.get_mut(class) {
            free.push(handle);
        }
    }

    fn grow(&self, class: u32) -> Option<u32> {
        self.lines
            .grow(class, || Line(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

/// Words in a line.
pub(super) const WORDS: usize = 8;

/// Address bits within a granule.
pub(super) const GRANULE_BITS: u32 = if cfg!(loom) { 14 } else { 8 };

/// Granules of a page.
pub(super) const GRANULES: usize = 1 << (PAGE_BITS - GRANULE_BITS);

/// Address bits within a page.
pub(super) const PAGE_BITS: u32 = 16;

/// Lists have 1, 2, 4 and so on lines; the longest holds an owner for each byte of a granule.
pub(super) const CLASSES: usize = 7;

/// The model checker pays for each word that exists.
const FIRST_LINES: u32 = if cfg!(loom) { 2 } else { 10 };
const FIRST_LEAVES: u32 = 2;
const FIRST_GRANULES: u32 = if cfg!(loom) { 0 } else { 6 };
