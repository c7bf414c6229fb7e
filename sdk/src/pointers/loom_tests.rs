//! The page slots and records under the model checker, one writer against one reader.

use loom::{sync::Arc, thread};

use super::{
    arena::{Arena, Pool},
    page::Block,
    parts::Part,
    radix::Change,
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
        let (mut change, part) = self.change(pool, handle);
        Block::page(&self.slot).add(&mut change, part).unwrap();
        record.publish();
        handle
    }

    fn remove(&self, pool: &mut Pool, handle: u32) {
        Record(self.arena.line(handle).unwrap()).retire();
        let (mut change, part) = self.change(pool, handle);
        Block::page(&self.slot).remove(&mut change, part);
        Arena::give_record(pool, handle);
    }

    /// The change of a record in its range.
    fn change<'a>(&'a self, pool: &'a mut Pool, record: u32) -> (Change<'a>, Part) {
        let [_, base, size, ..] = &self.arena.line(record).unwrap().0;
        let (base, size) = (base.load(Ordering::Relaxed), size.load(Ordering::Relaxed));
        let arena = &self.arena;
        let change = Change {
            arena,
            pool,
            record,
        };
        (change, Part::all(base, base + size - 1))
    }

    fn find(&self, address: u64) -> Option<PointerEntry> {
        let hit = Block::page(&self.slot).find(&self.arena, address);
        hit.map(|(_, entry)| entry)
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
        for id in 10..17 {
            page.insert(&mut pool, PointerEntry::new(id << 8, 0x100, id, id));
        }
        let reader = {
            let page = Arc::clone(&page);
            thread::spawn(move || assert_eq!(page.find(0x1ff), Some(LOW)))
        };
        page.insert(&mut pool, PointerEntry::new(0x8_0000, 0x4_0100, 17, 17));
        assert_eq!(page.find(0xc_00ff).map(|entry| entry.allocation), Some(17));
        reader.join().unwrap();
    });
}
