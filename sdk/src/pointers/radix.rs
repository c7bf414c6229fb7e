//! From an address to its page: three levels of 4096 entries, then 4096 pages.

use std::sync::OnceLock;

use super::{
    arena::{Arena, Leaf, PAGE_BITS, Pool},
    granule,
    page::{self, Full, Hit},
    parts::{FAN, Part, index, parts},
    record::{PointerEntry, Record},
    words::{AtomicU64, Ordering},
};

/// A node above the pages. It and everything below it live as long as the table.
#[derive(Debug)]
pub(super) struct Interior(Box<[Entry; FAN]>);

/// What lies below one entry of an interior node.
#[derive(Debug)]
struct Entry {
    /// The record of the range that fills this entry wholly, or 0.
    cover: AtomicU64,
    child: OnceLock<Child>,
}

#[derive(Debug)]
enum Child {
    Interior(Interior),
    /// The handle of the leaf.
    Leaf(u32),
}

/// What a change of the tree needs.
#[derive(Debug)]
pub(super) struct Change<'a> {
    /// Where the lines are.
    pub(super) arena: &'a Arena,
    /// The free lines of the locked shard.
    pub(super) pool: &'a mut Pool,
    /// The record to enter or to take out.
    pub(super) record: u32,
}

impl Interior {
    /// A node with nothing below it; `None` only if the entries were miscounted.
    pub(super) fn new() -> Option<Self> {
        let entries: Box<[Entry]> = (0..FAN)
            .map(|_| Entry {
                cover: AtomicU64::new(0),
                child: OnceLock::new(),
            })
            .collect();
        Some(Self(entries.try_into().ok()?))
    }

    /// Who owns the address. Takes no lock.
    ///
    /// Places are read one after the other. A range never moves between two of them, so if none
    /// showed an owner, the owner there was, if any, ended in between.
    #[inline(always)]
    pub(super) fn find(&self, arena: &Arena, address: u64) -> Option<Hit> {
        let (mut node, mut shift) = (self, ROOT_SHIFT);
        loop {
            let entry = node.0.get(index(address, shift))?;
            let cover = entry.cover.load(Ordering::Acquire);
            if cover != 0
                && let Some(hit) = page::read_at(arena, record(cover), address)
            {
                return Some(hit);
            }
            match entry.child.get()? {
                Child::Interior(below) => {
                    node = below;
                    shift -= FAN_BITS;
                }
                Child::Leaf(leaf) => {
                    let Leaf(slots) = arena.leaf(*leaf)?;
                    return page::find(arena, slots.get(index(address, PAGE_BITS))?, address);
                }
            }
        }
    }

    /// A live range that shares an address with this one. The caller holds the locks.
    pub(super) fn overlap(&self, arena: &Arena, first: u64, last: u64) -> Option<PointerEntry> {
        self.overlap_below(arena, ROOT_SHIFT, first, last)
    }

    fn overlap_below(
        &self,
        arena: &Arena,
        shift: u32,
        first: u64,
        last: u64,
    ) -> Option<PointerEntry> {
        parts(shift, first, last).find_map(|part| {
            let entry = self.0.get(index(part.first, shift))?;
            let cover = entry.cover.load(Ordering::Relaxed);
            let covered = || Record(arena.line(record(cover))?).read();
            if let Some(existing) = (cover != 0).then(covered).flatten() {
                return Some(existing);
            }
            match entry.child.get()? {
                Child::Interior(below) => {
                    below.overlap_below(arena, shift - FAN_BITS, part.first, part.last)
                }
                Child::Leaf(leaf) => arena.leaf(*leaf)?.overlap(arena, part),
            }
        })
    }

    /// Makes every address of the range lead to the record. The caller holds the locks.
    ///
    /// # Errors
    /// [`Full`] when there is no memory for it; a part may be entered.
    pub(super) fn add(&self, change: &mut Change<'_>, first: u64, last: u64) -> Result<(), Full> {
        self.add_below(change, ROOT_SHIFT, first, last)
    }

    fn add_below(
        &self,
        change: &mut Change<'_>,
        shift: u32,
        first: u64,
        last: u64,
    ) -> Result<(), Full> {
        for part in parts(shift, first, last) {
            let entry = self.0.get(index(part.first, shift)).ok_or(Full)?;
            if part.whole {
                entry
                    .cover
                    .store(u64::from(change.record), Ordering::Release);
                continue;
            }
            match entry.child_or_new(change.arena, shift).ok_or(Full)? {
                Child::Interior(below) => {
                    below.add_below(change, shift - FAN_BITS, part.first, part.last)?;
                }
                Child::Leaf(leaf) => change.arena.leaf(*leaf).ok_or(Full)?.add(change, part)?,
            }
        }
        Ok(())
    }

    /// Undoes [`Self::add`], whole or in part. The caller holds the locks.
    pub(super) fn remove(&self, change: &mut Change<'_>, first: u64, last: u64) {
        self.remove_below(change, ROOT_SHIFT, first, last);
    }

    fn remove_below(&self, change: &mut Change<'_>, shift: u32, first: u64, last: u64) {
        for part in parts(shift, first, last) {
            let Some(entry) = self.0.get(index(part.first, shift)) else {
                continue;
            };
            if part.whole {
                entry.cover.store(0, Ordering::Release);
                continue;
            }
            match entry.child.get() {
                Some(Child::Interior(below)) => {
                    below.remove_below(change, shift - FAN_BITS, part.first, part.last);
                }
                Some(Child::Leaf(leaf)) => {
                    if let Some(leaf) = change.arena.leaf(*leaf) {
                        leaf.remove(change, part);
                    }
                }
                None => {}
            }
        }
    }
}

impl Entry {
    fn child_or_new(&self, arena: &Arena, shift: u32) -> Option<&Child> {
        if let Some(child) = self.child.get() {
            return Some(child);
        }
        let new = if shift == LAST_SHIFT {
            Child::Leaf(arena.take_leaf()?)
        } else {
            Child::Interior(Interior::new()?)
        };
        // Two shards may want the same interior node: the loser's is dropped and was never seen.
        // A leaf lies within one shard.
        Some(self.child.get_or_init(|| new))
    }
}

impl Leaf {
    fn overlap(&self, arena: &Arena, part: Part) -> Option<PointerEntry> {
        parts(PAGE_BITS, part.first, part.last).find_map(|page| {
            let slot = self.0.get(index(page.first, PAGE_BITS))?;
            granule::visit(arena, slot, page, |slot, part| {
                page::overlap(arena, slot, part.first, part.last)
            })
        })
    }

    fn add(&self, change: &mut Change<'_>, part: Part) -> Result<(), Full> {
        for page in parts(PAGE_BITS, part.first, part.last) {
            let slot = self.0.get(index(page.first, PAGE_BITS)).ok_or(Full)?;
            let (arena, pool, record) = (change.arena, &mut *change.pool, change.record);
            granule::cut_if_full(arena, pool, slot, page.first)?;
            let failed = granule::visit(arena, slot, page, |slot, part| {
                page::add(arena, pool, slot, part.first, record).err()
            });
            failed.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn remove(&self, change: &mut Change<'_>, part: Part) {
        for page in parts(PAGE_BITS, part.first, part.last) {
            if let Some(slot) = self.0.get(index(page.first, PAGE_BITS)) {
                let (arena, pool, record) = (change.arena, &mut *change.pool, change.record);
                granule::visit::<()>(arena, slot, page, |slot, _| {
                    page::remove(arena, pool, slot, record);
                    None
                });
            }
        }
    }
}

#[inline]
fn record(cover: u64) -> u32 {
    u32::try_from(cover).unwrap_or(0)
}

/// Address bits below the entries of the lowest interior level: a leaf spans 256 MiB.
pub(super) const LAST_SHIFT: u32 = PAGE_BITS + FAN_BITS;

const FAN_BITS: u32 = 12;
const ROOT_SHIFT: u32 = LAST_SHIFT + 2 * FAN_BITS;
