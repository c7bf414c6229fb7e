//! The owners within one slot, a 64 KiB page or a granule of it: none, one record, or a sorted list.
//!
//! The slot is one word that names either, or the granules of a page with too many owners. A list is a head word (version and
//! length) and one word per owner (where it starts in the page, and its record). A list is
//! changed in place between an odd and an even version; a reader that found an owner asks the
//! record only, and one that found none trusts that only if slot and version stood still.

use super::{
    arena::{Arena, CLASSES, Line, PAGE_BITS, Pool, WORDS},
    granule,
    record::{PointerEntry, Record},
    words::{AtomicU32, AtomicU64, Ordering, fence, spin_loop},
};

/// A live range and the handle of its record.
pub(super) type Hit = (u32, PointerEntry);

/// What a slot's word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owners {
    None,
    One(u32),
    List(u32),
    Granules(u32),
}

/// The arena was full. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// Who owns the address. Takes no lock.
///
/// Whether a page has one owner or several follows no pattern, and the word that tells is
/// mostly not in a cache. A branch on it would be guessed wrong and keep the next query from
/// starting, so both are read the same way, without one.
#[inline(always)]
pub(super) fn find(arena: &Arena, slot: &AtomicU32, address: u64) -> Option<Hit> {
    let mut slot = slot;
    loop {
        let word = slot.load(Ordering::Acquire);
        if word == 0 {
            return None;
        }
        if word >= GRANULES {
            slot = granule::of(arena, word & !GRANULES, address)?;
            continue;
        }
        let (handle, is_list) = (word & !LIST, word & LIST != 0);
        let Line([head, owners @ ..]) = arena.line(handle)?;
        let seen = head.load(Ordering::Acquire);
        // All ones for a list. Masks, since a compiler turns a choice into a branch.
        let mask = (word >> 31).wrapping_neg();
        let unusual = low(seen) & mask & UNUSUAL;
        let candidate = if unusual == 0 {
            // Of a record's words, which are no owners, the answer is masked out.
            handle ^ ((handle ^ last_before(owners, offset_of(address))) & mask)
        } else if u64::from(unusual) & VERSION == 0 {
            List::of(arena, handle)?
                .owner_at(length_of(seen), offset_of(address))
                .unwrap_or(0)
        } else {
            spin_loop();
            continue;
        };
        if let Some(hit) = read_at(arena, candidate, address) {
            return Some(hit);
        }
        if !is_list {
            return None;
        }
        fence(Ordering::Acquire);
        // In this order: then the list was this page's while it stood still.
        if slot.load(Ordering::Acquire) == word && head.load(Ordering::Relaxed) == seen {
            return None;
        }
    }
}

/// The live range that holds the last of these addresses or lies before it, if it reaches
/// `first`. The caller holds the lock, and `last` lies in the slot's page.
pub(super) fn overlap(
    arena: &Arena,
    slot: &AtomicU32,
    first: u64,
    last: u64,
) -> Option<PointerEntry> {
    let record = match Owners::from_word(slot.load(Ordering::Relaxed)) {
        Owners::None | Owners::Granules(_) => return None,
        Owners::One(record) => record,
        Owners::List(handle) => {
            let list = List::of(arena, handle)?;
            let length = length_of(list.head.load(Ordering::Relaxed));
            list.owner_at(length, offset_of(last))?
        }
    };
    let entry = Record(arena.line(record)?).read()?;
    (entry.base <= last && entry.last() >= first).then_some(entry)
}

/// The granules of a slot's page, where it has them.
#[inline]
pub(super) fn granules(slot: &AtomicU32) -> Option<u32> {
    match Owners::from_word(slot.load(Ordering::Relaxed)) {
        Owners::Granules(handle) => Some(handle),
        Owners::None | Owners::One(_) | Owners::List(_) => None,
    }
}

/// The records of a slot whose list fills its line. The caller holds the lock.
pub(super) fn records_of_full_line(arena: &Arena, slot: &AtomicU32) -> Option<Vec<u32>> {
    let Owners::List(handle) = Owners::from_word(slot.load(Ordering::Relaxed)) else {
        return None;
    };
    let list = List::of(arena, handle)?;
    let owners = list.owners(length_of(list.head.load(Ordering::Relaxed)));
    (owners.len() >= WORDS - 1).then(|| owners.into_iter().map(record_of).collect())
}

/// Makes the slot name granules, which have all that its list has. The caller holds the lock.
pub(super) fn name_granules(arena: &Arena, pool: &mut Pool, slot: &AtomicU32, granules: u32) {
    let before = Owners::from_word(slot.load(Ordering::Relaxed));
    slot.store(Owners::Granules(granules).to_word(), Ordering::Release);
    if let Owners::List(handle) = before
        && let Some(list) = List::of(arena, handle)
    {
        list.give_back(pool, handle);
    }
}

/// Enters a record whose part of the page starts at `first`. The caller holds the lock.
///
/// # Errors
/// [`Full`] when there is no line for a longer list.
pub(super) fn add(
    arena: &Arena,
    pool: &mut Pool,
    slot: &AtomicU32,
    first: u64,
    record: u32,
) -> Result<(), Full> {
    let new = owner_word(offset_of(first), record);
    match Owners::from_word(slot.load(Ordering::Relaxed)) {
        Owners::None => slot.store(Owners::One(record).to_word(), Ordering::Release),
        Owners::One(other) => {
            let start = Record(arena.line(other).ok_or(Full)?).start_in_page(first);
            let mut owners = [owner_word(start, other), new];
            owners.sort_unstable();
            replace(arena, pool, slot, &owners)?;
        }
        Owners::List(handle) => {
            let list = List::of(arena, handle).ok_or(Full)?;
            let length = length_of(list.head.load(Ordering::Relaxed));
            if length < list.capacity() {
                list.insert(length, new);
            } else {
                let mut owners = list.owners(length);
                let at = owners.partition_point(|word| *word < new);
                owners.insert(at, new);
                replace(arena, pool, slot, &owners)?;
                list.give_back(pool, handle);
            }
        }
        Owners::Granules(_) => return Err(Full),
    }
    Ok(())
}

/// Takes a record out, if the page has it. The caller holds the lock.
pub(super) fn remove(arena: &Arena, pool: &mut Pool, slot: &AtomicU32, record: u32) {
    match Owners::from_word(slot.load(Ordering::Relaxed)) {
        Owners::One(only) if only == record => {
            slot.store(Owners::None.to_word(), Ordering::Release);
        }
        Owners::None | Owners::One(_) | Owners::Granules(_) => {}
        Owners::List(handle) => {
            let Some(list) = List::of(arena, handle) else {
                return;
            };
            let length = length_of(list.head.load(Ordering::Relaxed));
            let Some(at) = list.position(length, record) else {
                return;
            };
            if length == 2 {
                let other = list.owner(1 - at).map_or(0, record_of);
                slot.store(Owners::One(other).to_word(), Ordering::Release);
                list.give_back(pool, handle);
                return;
            }
            list.remove(length, at);
            // A page that was full once should not keep its long list for the last few.
            if list.lines.len() > 1 && length - 1 <= list.capacity() / 4 {
                let owners = list.owners(length - 1);
                if replace(arena, pool, slot, &owners).is_ok() {
                    list.give_back(pool, handle);
                }
            }
        }
    }
}

/// The record's range, if it lives and holds the address.
#[inline]
pub(super) fn read_at(arena: &Arena, record: u32, address: u64) -> Option<Hit> {
    let entry = Record(arena.line(record)?).read()?;
    entry.contains(address).then_some((record, entry))
}

impl Owners {
    #[inline]
    fn from_word(word: u32) -> Self {
        match word {
            0 => Self::None,
            record if record < LIST => Self::One(record),
            list if list < GRANULES => Self::List(list & !LIST),
            granules => Self::Granules(granules & !GRANULES),
        }
    }

    fn to_word(self) -> u32 {
        match self {
            Self::None => 0,
            Self::One(record) => record,
            Self::List(handle) => handle | LIST,
            Self::Granules(handle) => handle | GRANULES,
        }
    }
}

impl Record<'_> {
    /// Where the range starts in the page of `address`; 0 when it starts before the page.
    /// The record may not live yet, or no more: the caller holds the lock.
    fn start_in_page(self, address: u64) -> u64 {
        let [_, base, ..] = &self.0.0;
        let base = base.load(Ordering::Relaxed);
        if base >> PAGE_BITS == address >> PAGE_BITS {
            offset_of(base)
        } else {
            0
        }
    }
}

/// The lines of a list: the head word, then the owners by their start.
#[derive(Debug, Clone, Copy)]
struct List<'a> {
    head: &'a AtomicU64,
    lines: &'a [Line],
}

impl<'a> List<'a> {
    /// The list of a slot's word. How many lines it has never changes, so it may be read late.
    #[inline]
    fn of(arena: &'a Arena, handle: u32) -> Option<Self> {
        let lines = arena.lines(handle)?;
        let Line([head, ..]) = lines.first()?;
        let class = class_of(head.load(Ordering::Relaxed));
        Some(Self {
            head,
            lines: lines.get(..1 << class)?,
        })
    }

    /// Lines that were just taken, as a list without owners.
    fn new(arena: &'a Arena, handle: u32, class: u32) -> Option<Self> {
        let Line([head, ..]) = arena.line(handle)?;
        let old = head.load(Ordering::Relaxed) & !(VERSION - 1);
        head.store(old | u64::from(class) << CLASS_SHIFT, Ordering::Relaxed);
        Self::of(arena, handle)
    }

    fn capacity(self) -> usize {
        self.lines.len() * WORDS - 1
    }

    #[inline]
    fn word(self, index: usize) -> Option<&'a AtomicU64> {
        let at = index + 1;
        self.lines.get(at / WORDS)?.0.get(at % WORDS)
    }

    #[inline]
    fn owner(self, index: usize) -> Option<u64> {
        Some(self.word(index)?.load(Ordering::Relaxed))
    }

    fn owners(self, length: usize) -> Vec<u64> {
        (0..length).filter_map(|index| self.owner(index)).collect()
    }

    /// The last owner that starts at the offset or before it.
    fn owner_at(self, length: usize, offset: u64) -> Option<u32> {
        let (mut low, mut high) = (0, length);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.owner(middle)? >> 32 <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.owner(low.checked_sub(1)?).map(record_of)
    }

    fn position(self, length: usize, record: u32) -> Option<usize> {
        (0..length).find(|index| self.owner(*index).map(record_of) == Some(record))
    }

    fn insert(self, length: usize, new: u64) {
        let head = self.begin();
        let mut at = length;
        while let Some(before) = at.checked_sub(1).and_then(|index| self.owner(index)) {
            if before < new {
                break;
            }
            self.set(at, before);
            at -= 1;
        }
        self.set(at, new);
        self.end(head, length + 1);
    }

    fn remove(self, length: usize, at: usize) {
        let head = self.begin();
        for index in at + 1..length {
            self.set(index - 1, self.owner(index).unwrap_or(0));
        }
        self.set(length - 1, NOBODY);
        self.end(head, length - 1);
    }

    /// Writes a list that no slot names yet. A late reader of its last use sees the version.
    fn fill(self, owners: &[u64]) {
        let head = self.begin();
        for (index, owner) in owners.iter().enumerate() {
            self.set(index, *owner);
        }
        for index in owners.len()..WORDS - 1 {
            self.set(index, NOBODY);
        }
        self.end(head, owners.len());
    }

    /// After the slot names it no more: readers that still hold it look at the slot again.
    fn give_back(self, pool: &mut Pool, handle: u32) {
        let head = self.begin();
        self.end(head, 0);
        Arena::give_list(pool, handle, class_of(head));
    }

    fn set(self, index: usize, owner: u64) {
        if let Some(word) = self.word(index) {
            word.store(owner, Ordering::Relaxed);
        }
    }

    fn begin(self) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        self.head
            .store(head.wrapping_add(VERSION), Ordering::Relaxed);
        fence(Ordering::Release);
        head
    }

    fn end(self, head: u64, length: usize) {
        let version = head.wrapping_add(2 * VERSION) & !((1 << CLASS_SHIFT) - 1);
        let length = u64::try_from(length).unwrap_or(0);
        self.head.store(version | length, Ordering::Release);
    }
}

/// The last owner of a line that starts at the offset or before it, else the first. All words
/// are compared, those without an owner too: a branch for each would cost more.
#[inline]
fn last_before(owners: &[AtomicU64; WORDS - 1], offset: u64) -> u32 {
    let starts = |word: &AtomicU64| usize::from(word.load(Ordering::Relaxed) >> 32 <= offset);
    let count = owners.iter().map(starts).sum::<usize>();
    owners
        .get(count.saturating_sub(1))
        .map_or(0, |word| record_of(word.load(Ordering::Relaxed)))
}

/// Makes the slot name a new list of these owners.
fn replace(arena: &Arena, pool: &mut Pool, slot: &AtomicU32, owners: &[u64]) -> Result<(), Full> {
    let lines = (owners.len() + 1).div_ceil(WORDS).next_power_of_two();
    let class = lines.trailing_zeros();
    if usize::try_from(class).is_ok_and(|class| class >= CLASSES) {
        return Err(Full);
    }
    let handle = arena.take_list(pool, class).ok_or(Full)?;
    List::new(arena, handle, class).ok_or(Full)?.fill(owners);
    slot.store(Owners::List(handle).to_word(), Ordering::Release);
    Ok(())
}

#[inline]
fn offset_of(address: u64) -> u64 {
    address & ((1 << PAGE_BITS) - 1)
}

fn owner_word(offset: u64, record: u32) -> u64 {
    offset << 32 | u64::from(record)
}

#[inline]
fn record_of(word: u64) -> u32 {
    low(word)
}

/// The low half of a word.
#[inline]
fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

#[inline]
fn length_of(head: u64) -> usize {
    usize::try_from(head & ((1 << CLASS_SHIFT) - 1)).unwrap_or(0)
}

/// The binary logarithm of a list's lines.
#[inline]
fn class_of(head: u64) -> u32 {
    low((head & CLASS_MASK) >> CLASS_SHIFT)
}

/// In a slot: the handle is a list's and not a record's.
const LIST: u32 = 1 << 31;

/// In a slot: the handle is that of a page's granules.
const GRANULES: u32 = LIST | 1 << 30;

/// A head word holds the length, then the class, then the version.
const CLASS_SHIFT: u32 = 20;

const CLASS_MASK: u64 = 15 << CLASS_SHIFT;

/// A list that is not one line, or is being changed.
const UNUSUAL: u32 = 0x1f << CLASS_SHIFT;

/// In a list's first line, a word without an owner: it starts after every offset.
const NOBODY: u64 = u64::MAX;

/// One step of a list's version.
const VERSION: u64 = 1 << 24;
