//! Blocks of host memory that were freed and are kept for the next allocation.
//!
//! Fresh memory costs a page fault for each page, which is several times what copying into it
//! takes. So large blocks ask for huge pages, and a bounded sum of freed ones is kept. A block comes
//! back with the driver's last word about the object over it: nothing queued still uses it.
#![expect(unsafe_code, reason = "blocks are allocated, advised and freed raw")]

use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
    sync::{Mutex, PoisonError},
};

/// Host memory with room for one allocation.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is owned memory; its address is used by whoever owns it.
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

/// The freed blocks of one device.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Oldest first.
    blocks: Vec<Block>,
    most_bytes: usize,
}

impl Pool {
    /// Keeps at most `most_bytes` in all.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            kept: Mutex::new(Kept {
                blocks: Vec::new(),
                most_bytes,
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
        let mut freed = Vec::new();
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let size = block.layout.size();
            if size < LEAST_KEPT || size > kept.most_bytes {
                freed.push(block);
            } else {
                kept.blocks.push(block);
                let mut sum: usize = kept.blocks.iter().map(|block| block.layout.size()).sum();
                while sum > kept.most_bytes && !kept.blocks.is_empty() {
                    let oldest = kept.blocks.remove(0);
                    sum -= oldest.layout.size();
                    freed.push(oldest);
                }
            }
        }
        // Giving memory back to the system takes long, so the lock is gone by now.
        drop(freed);
    }

    /// Frees what is kept, and keeps nothing more.
    pub(crate) fn close(&self) {
        let blocks = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.most_bytes = 0;
            std::mem::take(&mut kept.blocks)
        };
        drop(blocks);
    }

    /// The smallest kept block that fits and wastes little.
    fn reuse(&self, wanted: Layout) -> Option<Block> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
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
        Some(kept.blocks.remove(place))
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
        pool.close();
        assert!(sizes().is_empty());
        pool.give(Block::fresh(layout_for(1 << 20, 1).unwrap()).unwrap());
        assert!(sizes().is_empty());
    }
}
