//! The owners within one block of addresses: none, one record, a list, or the parts it was cut into.
//!
//! A page of 1 MiB is a block, and its slot is one word that says which of these. A block that
//! gets more owners than a list holds is cut into 32 parts with a slot each, which are
//! blocks too, down to one byte. A block that was cut stays so for the life of the table. A reader
//! that found an owner asks the record only, and one that found none trusts that only if
//! slot and list stood still.

use super::{
    arena::{Arena, CUT_BITS, Cut},
    list::{CAPACITY, List, Owner, START_BITS, low},
    parts::{Part, index, parts},
    radix::Change,
    record::{PointerEntry, Record},
    words::{AtomicU32, Ordering, fence, spin_loop},
};

/// A live range and the handle of its record.
pub(super) type Hit = (u32, PointerEntry);

/// There is no memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// A slot and the addresses that it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    slot: &'a AtomicU32,
    /// The address bits within it.
    bits: u32,
}

/// What a slot's word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owners {
    None,
    One(u32),
    List(u32),
    Cut(u32),
}

impl<'a> Block<'a> {
    /// The page of a slot.
    #[inline(always)]
    pub(super) fn page(slot: &'a AtomicU32) -> Self {
        Self {
            slot,
            bits: PAGE_BITS,
        }
    }

    /// Who owns the address. Takes no lock.
    ///
    /// Whether a block has one owner or several follows no pattern, and the word that tells is
    /// mostly not in a cache. A branch on it would be guessed wrong and keep the next query from
    /// starting, so both are read the same way, without one.
    #[inline(always)]
    pub(super) fn find(self, arena: &Arena, address: u64) -> Option<Hit> {
        let mut block = self;
        loop {
            let word = block.slot.load(Ordering::Acquire);
            if word >= CUT {
                block = block.part(arena.cut(word & !CUT)?, address)?;
                continue;
            }
            let (handle, is_list) = (word & !LIST, word & LIST != 0);
            let list = List(arena.line(handle)?);
            let seen = list.head().load(Ordering::Acquire);
            // All ones for a list. Masks, since a compiler turns a choice into a branch.
            let mask = (word >> 31).wrapping_neg();
            if seen & u64::from(mask & 1) != 0 {
                spin_loop();
                continue;
            }
            // Of a record's words, which are no owners, the answer is masked out.
            let listed = list.last_before(block.offset(address));
            let candidate = handle ^ ((handle ^ listed) & mask);
            if let Some(hit) = read_at(arena, candidate, address) {
                return Some(hit);
            }
            if !is_list {
                return None;
            }
            fence(Ordering::Acquire);
            // In this order: then the list was this block's while it stood still.
            if block.slot.load(Ordering::Acquire) == word
                && list.head().load(Ordering::Relaxed) == seen
            {
                return None;
            }
        }
    }

    /// A live range that shares an address with this part of the block. The caller holds the lock.
    pub(super) fn overlap(self, arena: &Arena, part: Part) -> Option<PointerEntry> {
        let record = match self.owners() {
            Owners::None => return None,
            Owners::One(record) => record,
            Owners::List(handle) => List(arena.line(handle)?).last_before(self.offset(part.last)),
            Owners::Cut(handle) => {
                let cut = arena.cut(handle)?;
                return parts(self.bits - CUT_BITS, part.first, part.last)
                    .find_map(|part| self.part(cut, part.first)?.overlap(arena, part));
            }
        };
        let entry = Record(arena.line(record)?).read()?;
        (entry.base <= part.last && entry.last() >= part.first).then_some(entry)
    }

    /// Enters the record for this part of the block. The caller holds the lock.
    ///
    /// # Errors
    /// [`Full`] when there is no memory for it; a part may be entered.
    pub(super) fn add(self, change: &mut Change<'_>, part: Part) -> Result<(), Full> {
        let new = Owner {
            start: self.offset(part.first),
            record: change.record,
        };
        match self.owners() {
            Owners::None => self.name(Owners::One(new.record)),
            Owners::One(record) => {
                let start =
                    self.start_of(Record(change.arena.line(record).ok_or(Full)?), part.first);
                let handle = change.arena.take_list(change.pool).ok_or(Full)?;
                let mut owners = [Owner { start, record }, new];
                owners.sort_unstable();
                List(change.arena.line(handle).ok_or(Full)?).write(&owners);
                self.name(Owners::List(handle));
            }
            Owners::List(handle) => {
                let list = List(change.arena.line(handle).ok_or(Full)?);
                let mut owners = list.owners();
                if owners.len() == CAPACITY {
                    self.cut(change, &owners, part.first)?;
                    give_list(change, handle, list);
                    return self.add(change, part);
                }
                let at = owners.partition_point(|owner| *owner < new);
                owners.insert(at, new);
                list.write(&owners);
            }
            Owners::Cut(handle) => {
                let cut = change.arena.cut(handle).ok_or(Full)?;
                for part in parts(self.bits - CUT_BITS, part.first, part.last) {
                    self.part(cut, part.first).ok_or(Full)?.add(change, part)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the record out of this part of the block, where it is. The caller holds the lock.
    pub(super) fn remove(self, change: &mut Change<'_>, part: Part) {
        match self.owners() {
            Owners::One(only) if only == change.record => self.name(Owners::None),
            Owners::None | Owners::One(_) => {}
            Owners::List(handle) => {
                let Some(list) = change.arena.line(handle).map(List) else {
                    return;
                };
                let mut owners = list.owners();
                owners.retain(|owner| owner.record != change.record);
                if let [only] = owners.as_slice() {
                    self.name(Owners::One(only.record));
                    give_list(change, handle, list);
                } else {
                    list.write(&owners);
                }
            }
            Owners::Cut(handle) => {
                let Some(cut) = change.arena.cut(handle) else {
                    return;
                };
                for part in parts(self.bits - CUT_BITS, part.first, part.last) {
                    if let Some(block) = self.part(cut, part.first) {
                        block.remove(change, part);
                    }
                }
            }
        }
    }

    /// Cuts the block of this address, which has these owners, into parts that have them too.
    fn cut(self, change: &mut Change<'_>, owners: &[Owner], address: u64) -> Result<(), Full> {
        let handle = change.arena.take_cut().ok_or(Full)?;
        let cut = change.arena.cut(handle).ok_or(Full)?;
        let first = address >> self.bits << self.bits;
        let last = first | ((1 << self.bits) - 1);
        for owner in owners {
            // Whatever a slot names lives as long as the lock is held.
            let record = Record(change.arena.line(owner.record).ok_or(Full)?);
            let entry = record.read().ok_or(Full)?;
            let mut change = Change {
                arena: change.arena,
                pool: &mut *change.pool,
                record: owner.record,
            };
            let (first, last) = (entry.base.max(first), entry.last().min(last));
            for part in parts(self.bits - CUT_BITS, first, last) {
                self.part(cut, part.first)
                    .ok_or(Full)?
                    .add(&mut change, part)?;
            }
        }
        self.name(Owners::Cut(handle));
        Ok(())
    }

    /// The part of the block that the address lies in.
    #[inline(always)]
    fn part(self, Cut(slots): &'a Cut, address: u64) -> Option<Self> {
        let bits = self.bits.saturating_sub(CUT_BITS);
        let slot = slots.get(index(address, bits, CUT_BITS))?;
        Some(Self { slot, bits })
    }

    fn owners(self) -> Owners {
        match self.slot.load(Ordering::Relaxed) {
            0 => Owners::None,
            record if record < LIST => Owners::One(record),
            list if list < CUT => Owners::List(list & !LIST),
            cut => Owners::Cut(cut & !CUT),
        }
    }

    fn name(self, owners: Owners) {
        let word = match owners {
            Owners::None => 0,
            Owners::One(record) => record,
            Owners::List(handle) => handle | LIST,
            Owners::Cut(handle) => handle | CUT,
        };
        self.slot.store(word, Ordering::Release);
    }

    /// Where in the block the address lies.
    #[inline(always)]
    fn offset(self, address: u64) -> u32 {
        low(address) & ((1 << self.bits) - 1)
    }

    /// Where the range starts in the block of `address`; 0 when it starts before the block.
    /// The record may not live yet, or no more: the caller holds the lock.
    fn start_of(self, record: Record<'_>, address: u64) -> u32 {
        let base = record.base();
        if base >> self.bits == address >> self.bits {
            self.offset(base)
        } else {
            0
        }
    }
}

/// The record's range, if it lives and holds the address.
#[inline(always)]
pub(super) fn read_at(arena: &Arena, record: u32, address: u64) -> Option<Hit> {
    let entry = Record(arena.line(record)?).read()?;
    entry.contains(address).then_some((record, entry))
}

/// After the slot names it no more: readers that still hold it look at the slot again.
fn give_list(change: &mut Change<'_>, handle: u32, list: List<'_>) {
    list.write(&[]);
    Arena::give_list(change.pool, handle);
}

/// Address bits within a page.
pub(super) const PAGE_BITS: u32 = START_BITS;

/// In a slot: the handle is a list's and not a record's.
const LIST: u32 = 1 << 31;

/// In a slot: the handle is that of the block's parts.
const CUT: u32 = LIST | 1 << 30;
