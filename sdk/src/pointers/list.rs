//! The owners of one block that has several, sorted by where they start, in one line.
//!
//! The line is a head word, then the starts, three to a word, then the handles of the records, two
//! to a word. Starts have a bit of room above them, so that one subtraction compares three.
//! The head is a version: a list is changed in place between an odd and an even one.

use super::{
    arena::{Line, WORDS},
    words::{AtomicU64, Ordering, fence},
};

/// Owners that a list holds at most.
pub(super) const CAPACITY: usize = 8;

/// Address bits of the largest block that can have a list.
pub(super) const START_BITS: u32 = 20;

/// An owner: where it starts in its block, and its record. They sort by their starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    /// Below `1 << START_BITS`.
    pub(super) start: u32,
    /// The handle of the record.
    pub(super) record: u32,
}

/// A list's line.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a>(pub(super) &'a Line);

impl<'a> List<'a> {
    /// The version, odd while the list is being changed.
    #[inline(always)]
    pub(super) fn head(self) -> &'a AtomicU64 {
        let [head, ..] = &self.0.0;
        head
    }

    /// The record of the last owner that starts at the offset or before it, or 0. Of a list that
    /// changes meanwhile it may be the record of any owner.
    ///
    /// Without a branch, and few steps: a query that waits for memory keeps them all waiting.
    #[inline(always)]
    pub(super) fn last_before(self, offset: u32) -> u32 {
        let [_, first, second, third, handles @ ..] = &self.0.0;
        let offsets = (u64::from(offset) * LANES) | ROOM;
        let starts_before = |starts: &AtomicU64| {
            let left = offsets.wrapping_sub(starts.load(Ordering::Relaxed));
            left >> START_BITS & LANES
        };
        let lanes = starts_before(first) + starts_before(second) + starts_before(third);
        let count = lanes.wrapping_mul(LANES) >> (2 * LANE_BITS) & COUNT;
        // Before the first owner this is past the handles.
        let at = usize::try_from(count.wrapping_sub(1)).unwrap_or(usize::MAX);
        let pair = handles
            .get(at / 2)
            .map_or(0, |pair| pair.load(Ordering::Relaxed));
        low(pair >> (at % 2 * 32))
    }

    /// The owners, sorted. The caller holds the lock.
    pub(super) fn owners(self) -> Vec<Owner> {
        let [_, words @ ..] = &self.0.0;
        let lane = |at: usize| {
            let word = words.get(at / LANES_IN_WORD)?.load(Ordering::Relaxed);
            let lane = low(word >> (at % LANES_IN_WORD * LANE_BITS) & LANE);
            (lane != NOBODY).then_some(lane)
        };
        let handle = |at: usize| {
            let word = words.get(START_WORDS + at / 2)?.load(Ordering::Relaxed);
            Some(low(word >> (at % 2 * 32)))
        };
        let owner = |at| {
            Some(Owner {
                start: lane(at)?,
                record: handle(at)?,
            })
        };
        // With room for one more, which most callers add.
        let mut owners = Vec::with_capacity(CAPACITY + 1);
        owners.extend((0..CAPACITY).map_while(owner));
        owners
    }

    /// Writes these owners, sorted and at most [`CAPACITY`], over those it has. The caller holds
    /// the lock. Of a line that no slot names, a late reader sees the version.
    pub(super) fn write(self, owners: &[Owner]) {
        let [head, words @ ..] = &self.0.0;
        let mut new = EMPTY;
        for (at, owner) in owners.iter().enumerate() {
            let lane = at % LANES_IN_WORD * LANE_BITS;
            if let Some(word) = new.get_mut(at / LANES_IN_WORD) {
                *word ^= u64::from(owner.start ^ NOBODY) << lane;
            }
            if let Some(word) = new.get_mut(START_WORDS + at / 2) {
                *word |= u64::from(owner.record) << (at % 2 * 32);
            }
        }
        let version = head.load(Ordering::Relaxed);
        head.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, new) in words.iter().zip(new) {
            word.store(new, Ordering::Relaxed);
        }
        head.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// The low half of a word.
#[inline(always)]
pub(super) fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

const LANES_IN_WORD: usize = 3;
const START_WORDS: usize = CAPACITY.div_ceil(LANES_IN_WORD);
const LANE_BITS: usize = 21;
const LANE: u64 = (1 << LANE_BITS) - 1;
/// The lowest bit of each lane.
const LANES: u64 = 1 << (2 * LANE_BITS) | 1 << LANE_BITS | 1;
/// The bit of each lane that no start has.
const ROOM: u64 = LANES << START_BITS;
/// In a lane without an owner: it is past every offset.
const NOBODY: u32 = 1 << START_BITS;
/// A number of owners.
const COUNT: u64 = 15;
/// The words after the head of a list without owners.
const EMPTY: [u64; WORDS - 1] = [ROOM, ROOM, ROOM, 0, 0, 0, 0];
