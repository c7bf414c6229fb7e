//! Blocks of host memory that were freed and are kept for the next allocation, and what they and the
//! allocations come to.
//!
//! Fresh memory costs a page fault for each page, which is several times what copying into it
//! takes. So large blocks ask for huge pages, and a bounded sum of freed ones is kept. A block comes
//! back with the driver's last word about the object over it: nothing queued still uses it.
#![expect(unsafe_code, reason = "blocks are allocated, advised and freed raw")]

use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crossdock_sdk::abi::MemoryUsage;

/// Host memory with room for one allocation.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is owned memory; its address is used by its owner alone.
unsafe impl Send for Block {}

impl Block {
    fn fresh(layout: Layout) -> Option<Self> {
        // SAFETY: `alloc` needs a size above 0: `layout_for` pads to at least a cache line.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        if layout.align() >= HUGE_PAGE {
            // SAFETY: `madvise` needs a range of ours: the whole block. It changes no byte, and
            // where it is refused the pages are merely small.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Some(Self { start, layout })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `dealloc` needs memory of `alloc` with this layout, unused from here on: this is
        // the block's owner.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The freed blocks of one device, and the count of its memory.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Oldest first.
    blocks: Vec<Block>,
    /// Bytes of them all.
    bytes: usize,
    most_bytes: usize,
    /// Bytes of the allocations that live, over blocks or not.
    used: u64,
    peak_used: u64,
    peak_reserved: u64,
}

impl Pool {
    /// Keeps at most `most_bytes` in all.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            kept: Mutex::new(Kept {
                blocks: Vec::new(),
                bytes: 0,
                most_bytes,
                used: 0,
                peak_used: 0,
                peak_reserved: 0,
            }),
        }
    }

    /// A block of at least `bytes`, with arbitrary content.
    pub(crate) fn take(&self, bytes: usize, alignment: usize) -> Option<Block> {
        let layout = layout_for(bytes, alignment)?;
        self.reuse(layout).or_else(|| Block::fresh(layout))
    }

    /// Keeps a block that nobody uses any more, or frees it.
    pub(crate) fn give(&self, block: Block) {
        let size = block.layout.size();
        let freed = {
            let mut kept = self.kept();
            if size < LEAST_KEPT || size > kept.most_bytes {
                vec![block]
            } else {
                kept.blocks.push(block);
                kept.bytes += size;
                let most = kept.most_bytes;
                let freed = kept.evict(most);
                kept.note_peaks();
                freed
            }
        };
        // Giving memory back to the system takes long, so the lock is gone by now.
        drop(freed);
    }

    /// Frees the oldest of what is kept, until at most `keep` bytes are left.
    pub(crate) fn trim(&self, keep: usize) {
        let freed = self.kept().evict(keep);
        drop(freed);
    }

    /// Frees what is kept, and keeps nothing more.
    pub(crate) fn close(&self) {
        self.kept().most_bytes = 0;
        self.trim(0);
    }

    /// What is used and kept now, and the most that was.
    pub(crate) fn usage(&self) -> MemoryUsage {
        let kept = self.kept();
        MemoryUsage {
            reserved: kept.reserved(),
            used: kept.used,
            peak_reserved: kept.peak_reserved,
            peak_used: kept.peak_used,
        }
    }

    /// Begins the peaks anew.
    pub(crate) fn reset_peaks(&self) {
        let mut kept = self.kept();
        kept.peak_used = kept.used;
        kept.peak_reserved = kept.reserved();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The smallest kept block that fits and wastes little.
    fn reuse(&self, wanted: Layout) -> Option<Block> {
        let mut kept = self.kept();
        let most = wanted.size().saturating_add(wanted.size() / 4);
        let place = kept
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| {
                (wanted.size()..=most).contains(&block.layout.size())
                    && block.layout.align() >= wanted.align()
            })
            .min_by_key(|(_, block)| block.layout.size())
            .map(|(place, _)| place)?;
        let found = kept.blocks.remove(place);
        kept.bytes -= found.layout.size();
        Some(found)
    }
}

/// An allocation among the count of its device's memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    pool: Arc<Pool>,
    bytes: u64,
}

impl Counted {
    pub(crate) fn new(pool: &Arc<Pool>, bytes: u64) -> Self {
        let mut kept = pool.kept();
        kept.used += bytes;
        kept.note_peaks();
        drop(kept);
        Self {
            pool: Arc::clone(pool),
            bytes,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pool.kept().used -= self.bytes;
    }
}

impl Kept {
    /// Takes out the oldest blocks, until at most `most` bytes are left.
    fn evict(&mut self, most: usize) -> Vec<Block> {
        let mut bytes = self.bytes;
        let are_too_many = |block: &&Block| {
            let is_over = bytes > most;
            bytes -= if is_over { block.layout.size() } else { 0 };
            is_over
        };
        let count = self.blocks.iter().take_while(are_too_many).count();
        self.bytes = bytes;
        self.blocks.drain(..count).collect()
    }

    fn reserved(&self) -> u64 {
        self.used.saturating_add(self.bytes as u64)
    }

    fn note_peaks(&mut self) {
        self.peak_used = self.peak_used.max(self.used);
        self.peak_reserved = self.peak_reserved.max(self.reserved());
    }
}

/// Sizes in steps, so that tensors of nearly one size share blocks.
fn layout_for(bytes: usize, alignment: usize) -> Option<Layout> {
    let (step, least) = match bytes {
        // Drivers share memory in whole cache lines only.
        0..LEAST_KEPT => (64, PAGE),
        LEAST_KEPT..LEAST_HUGE => (LEAST_KEPT, PAGE),
        _ => (HUGE_PAGE, HUGE_PAGE),
    };
    let padded = bytes.max(1).checked_next_multiple_of(step)?;
    Layout::from_size_align(padded, alignment.max(least)).ok()
}

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// Smaller blocks come from the process's heap, which keeps them itself.
const LEAST_KEPT: usize = 64 << 10;

/// From here on rounding up to huge pages wastes little.
const LEAST_HUGE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(block: &Block) -> usize {
        block.start.as_ptr().addr()
    }

    #[test]
    fn a_freed_block_is_taken_again_by_what_is_nearly_as_large() {
        let pool = Pool::new(64 << 20);
        let block = pool.take(20 << 20, 256).unwrap();
        let first = address(&block);
        assert_eq!(first % HUGE_PAGE, 0);
        pool.give(block);
        let smaller = pool.take(12 << 20, 256).unwrap();
        assert_ne!(address(&smaller), first);
        let near = pool.take(19 << 20, 256).unwrap();
        assert_eq!(address(&near), first);
        let fresh = pool.take(19 << 20, 256).unwrap();
        assert_ne!(address(&fresh), first);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit_and_nothing_once_closed() {
        let pool = Pool::new(3 << 20);
        let sizes = || {
            let kept = pool.kept.lock().unwrap();
            let all: Vec<_> = kept.blocks.iter().map(|b| b.layout.size()).collect();
            all
        };
        for megabytes in [1, 2, 1, 4] {
            let block = Block::fresh(layout_for(megabytes << 20, 1).unwrap()).unwrap();
            pool.give(block);
        }
        assert_eq!(sizes(), [2 << 20, 1 << 20]);
        pool.trim(1 << 20);
        assert_eq!(sizes(), [1 << 20]);
        pool.close();
        assert!(sizes().is_empty());
        pool.give(Block::fresh(layout_for(1 << 20, 1).unwrap()).unwrap());
        assert!(sizes().is_empty());
    }

    #[test]
    fn what_is_used_and_kept_is_reserved() {
        let pool = Arc::new(Pool::new(8 << 20));
        let count = || {
            let usage = pool.usage();
            [
                usage.used,
                usage.reserved,
                usage.peak_used,
                usage.peak_reserved,
            ]
            .map(|bytes| bytes >> 20)
        };
        let block = pool.take(2 << 20, 256).unwrap();
        let over_block = Counted::new(&pool, 2 << 20);
        let of_driver = Counted::new(&pool, 3 << 20);
        assert_eq!(count(), [5, 5, 5, 5]);
        drop(over_block);
        pool.give(block);
        assert_eq!(count(), [3, 5, 5, 5]);
        drop(of_driver);
        pool.reset_peaks();
        assert_eq!(count(), [0, 2, 0, 2]);
        pool.trim(0);
        assert_eq!(count(), [0, 0, 0, 2]);
    }
}
