//! From an address to its page: three levels of 4096 entries, then the 256 pages of a region.

use std::sync::OnceLock;

use super::{
    arena::{Arena, Pool},
    page::{self, Block, Full, Hit, PAGE_BITS},
    parts::{Part, index, parts},
    record::{PointerEntry, Record},
    words::{AtomicU32, Ordering},
};

/// The whole tree, which lives as long as the table, as do all of its nodes.
pub(super) type Root = Node<Node<Node<Leaf>>>;

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

/// A node of the tree. Each method but `find` is for the holder of the locks.
pub(super) trait Below: Sized {
    /// The address bits within it.
    const BITS: u32;

    /// A node without owners; `None` only if its entries were miscounted.
    fn new() -> Option<Self>;

    /// Who owns the address. Takes no lock.
    ///
    /// Places are read one after the other. A range never moves between two of them, so if none
    /// showed an owner, the owner there was, if any, ended in between.
    fn find(&self, arena: &Arena, address: u64) -> Option<Hit>;

    /// A live range that shares an address with this one.
    fn overlap(&self, arena: &Arena, part: Part) -> Option<PointerEntry>;

    /// Makes every address of the part lead to the record.
    ///
    /// # Errors
    /// [`Full`] when there is no memory for it; a part may be entered.
    fn add(&self, change: &mut Change<'_>, part: Part) -> Result<(), Full>;

    /// Undoes [`Self::add`], whole or in part.
    fn remove(&self, change: &mut Change<'_>, part: Part);
}

/// A node above others.
#[derive(Debug)]
pub(super) struct Node<B>(Box<[Entry<B>; 1 << FAN_BITS]>);

/// What lies below one entry of a node.
#[derive(Debug)]
struct Entry<B> {
    below: OnceLock<B>,
    /// The record of the range that fills this entry wholly, or 0.
    cover: AtomicU32,
}

/// The slots of a region's pages.
#[derive(Debug)]
pub(super) struct Leaf(Box<[AtomicU32; 1 << (LEAF_BITS - PAGE_BITS)]>);

impl<B: Below> Below for Node<B> {
    const BITS: u32 = B::BITS + FAN_BITS;

    fn new() -> Option<Self> {
        let entry = |_| Entry {
            below: OnceLock::new(),
            cover: AtomicU32::new(0),
        };
        let entries: Box<[_]> = (0..1 << FAN_BITS).map(entry).collect();
        Some(Self(entries.try_into().ok()?))
    }

    #[inline(always)]
    fn find(&self, arena: &Arena, address: u64) -> Option<Hit> {
        let entry = self.0.get(index(address, B::BITS, FAN_BITS))?;
        let cover = entry.cover.load(Ordering::Acquire);
        if cover != 0
            && let Some(hit) = page::read_at(arena, cover, address)
        {
            return Some(hit);
        }
        entry.below.get()?.find(arena, address)
    }

    fn overlap(&self, arena: &Arena, part: Part) -> Option<PointerEntry> {
        parts(B::BITS, part.first, part.last).find_map(|part| {
            let entry = self.0.get(index(part.first, B::BITS, FAN_BITS))?;
            let cover = entry.cover.load(Ordering::Relaxed);
            let covered = arena.line(cover).and_then(|line| Record(line).read());
            covered.or_else(|| entry.below.get()?.overlap(arena, part))
        })
    }

    fn add(&self, change: &mut Change<'_>, part: Part) -> Result<(), Full> {
        for part in parts(B::BITS, part.first, part.last) {
            let entry = self
                .0
                .get(index(part.first, B::BITS, FAN_BITS))
                .ok_or(Full)?;
            if part.whole {
                entry.cover.store(change.record, Ordering::Release);
                continue;
            }
            entry.below_or_new().ok_or(Full)?.add(change, part)?;
        }
        Ok(())
    }

    fn remove(&self, change: &mut Change<'_>, part: Part) {
        for part in parts(B::BITS, part.first, part.last) {
            let Some(entry) = self.0.get(index(part.first, B::BITS, FAN_BITS)) else {
                continue;
            };
            if part.whole {
                entry.cover.store(0, Ordering::Release);
            } else if let Some(below) = entry.below.get() {
                below.remove(change, part);
            }
        }
    }
}

impl<B: Below> Entry<B> {
    fn below_or_new(&self) -> Option<&B> {
        if let Some(below) = self.below.get() {
            return Some(below);
        }
        let new = B::new()?;
        // Two shards may want the same node: the loser's is dropped and was never seen.
        Some(self.below.get_or_init(|| new))
    }
}

impl Below for Leaf {
    const BITS: u32 = LEAF_BITS;

    fn new() -> Option<Self> {
        let slots = 0..1 << (LEAF_BITS - PAGE_BITS);
        let slots: Box<[_]> = slots.map(|_| AtomicU32::new(0)).collect();
        Some(Self(slots.try_into().ok()?))
    }

    #[inline(always)]
    fn find(&self, arena: &Arena, address: u64) -> Option<Hit> {
        self.page(address)?.find(arena, address)
    }

    fn overlap(&self, arena: &Arena, part: Part) -> Option<PointerEntry> {
        parts(PAGE_BITS, part.first, part.last)
            .find_map(|part| self.page(part.first)?.overlap(arena, part))
    }

    fn add(&self, change: &mut Change<'_>, part: Part) -> Result<(), Full> {
        for part in parts(PAGE_BITS, part.first, part.last) {
            self.page(part.first).ok_or(Full)?.add(change, part)?;
        }
        Ok(())
    }

    fn remove(&self, change: &mut Change<'_>, part: Part) {
        for part in parts(PAGE_BITS, part.first, part.last) {
            if let Some(page) = self.page(part.first) {
                page.remove(change, part);
            }
        }
    }
}

impl Leaf {
    #[inline(always)]
    fn page(&self, address: u64) -> Option<Block<'_>> {
        let slot = index(address, PAGE_BITS, LEAF_BITS - PAGE_BITS);
        self.0.get(slot).map(Block::page)
    }
}

/// Address bits within a region, which has a shard's lock and a cover: 256 MiB.
pub(super) const LEAF_BITS: u32 = 28;

const FAN_BITS: u32 = 12;
