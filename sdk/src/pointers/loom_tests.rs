//! The page slots and records under the model checker, one writer against one reader.

use loom::{sync::Arc, thread};

use super::{
    arena::{Arena, PAGE_BITS, Pool},
    granule, page,
    parts::parts,
    record::{PointerEntry, Record},
    words::{AtomicU32, AtomicU64, Ordering},
};

/// A slot with its arena, written as the table writes it.
struct Page {
    arena: Arena,
    slot: AtomicU32,
}

impl Page {
    fn new() -> Self {
        Self {
            arena: Arena::new(),
            slot: AtomicU32::new(0),
        }
    }

    fn insert(&self, pool: &mut Pool, entry: PointerEntry) -> u32 {
        let handle = self.arena.take_record(pool).unwrap();
        let record = Record(self.arena.line(handle).unwrap());
        record.prepare(&entry);
        let (arena, slot) = (&self.arena, &self.slot);
        granule::cut_if_full(arena, pool, slot, entry.base).unwrap();
        for part in parts(PAGE_BITS, entry.base, entry.last()) {
            let failed = granule::visit(arena, slot, part, |slot, part| {
                page::add(arena, pool, slot, part.first, handle).err()
            });
            assert_eq!(failed, None);
        }
        record.publish();
        handle
    }

    fn remove(&self, pool: &mut Pool, handle: u32) {
        Record(self.arena.line(handle).unwrap()).retire();
        page::remove(&self.arena, pool, &self.slot, handle);
        Arena::give_record(pool, handle);
    }

    fn find(&self, address: u64) -> Option<PointerEntry> {
        page::find(&self.arena, &self.slot, address).map(|(_, entry)| entry)
    }
}

const LOW: PointerEntry = PointerEntry::new(0x100, 0x100, 1, 10);
const HIGH: PointerEntry = PointerEntry::new(0x300, 0x100, 2, 20);
const AGAIN: PointerEntry = PointerEntry::new(0x180, 0x40, 3, 30);

#[test]
fn a_reader_never_misses_a_range_that_lives_throughout() {
    loom::model(|| {
        let page = Arc::new(Page::new());
        let mut pool = Pool::default();
        page.insert(&mut pool, LOW);
        let reader = {
            let page = Arc::clone(&page);
            thread::spawn(move || assert_eq!(page.find(0x1ff), Some(LOW)))
        };
        // The slot becomes a list, then one record again.
        let high = page.insert(&mut pool, HIGH);
        page.remove(&mut pool, high);
        reader.join().unwrap();
    });
}

#[test]
fn a_range_is_whole_or_absent_while_its_record_is_used_again() {
    loom::model(|| {
        let page = Arc::new(Page::new());
        let mut pool = Pool::default();
        let low = page.insert(&mut pool, LOW);
        let reader = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                let answer = page.find(0x190);
                assert!(
                    [None, Some(LOW), Some(AGAIN)].contains(&answer),
                    "{answer:?}"
                );
            })
        };
        page.remove(&mut pool, low);
        page.insert(&mut pool, AGAIN);
        reader.join().unwrap();
    });
}

#[test]
fn a_removed_range_is_never_the_answer_after_the_removal() {
    loom::model(|| {
        let page = Arc::new(Page::new());
        let removed = Arc::new(AtomicU64::new(0));
        let mut pool = Pool::default();
        page.insert(&mut pool, HIGH);
        let low = page.insert(&mut pool, LOW);
        let reader = {
            let (page, removed) = (Arc::clone(&page), Arc::clone(&removed));
            thread::spawn(move || {
                let gone = removed.load(Ordering::Acquire) == 1;
                let answer = page.find(0x100);
                assert!(
                    answer.is_none() || (answer == Some(LOW) && !gone),
                    "{answer:?}"
                );
            })
        };
        page.remove(&mut pool, low);
        removed.store(1, Ordering::Release);
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_never_misses_a_range_while_its_page_is_cut() {
    loom::model(|| {
        let page = Arc::new(Page::new());
        let mut pool = Pool::default();
        page.insert(&mut pool, LOW);
        for id in 10..16 {
            page.insert(&mut pool, PointerEntry::new(id << 8, 0x100, id, id));
        }
        let reader = {
            let page = Arc::clone(&page);
            thread::spawn(move || assert_eq!(page.find(0x1ff), Some(LOW)))
        };
        page.insert(&mut pool, PointerEntry::new(0x8000, 0x4100, 16, 16));
        assert_eq!(page.find(0xc0ff).map(|entry| entry.allocation), Some(16));
        reader.join().unwrap();
    });
}
