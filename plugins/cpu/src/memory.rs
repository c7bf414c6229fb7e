//! Allocation of host memory that keeps freed blocks warm: aligned, in huge pages when large, bounded.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::pages::{self, Block};

/// Why no memory was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoMemory {
    /// The system has none left, or never had this much.
    Exhausted {
        /// The bytes asked for.
        bytes: usize,
    },
    /// An alignment that is no power of two, or above [`Cache::MAX_ALIGNMENT`].
    Alignment {
        /// The alignment asked for.
        alignment: usize,
    },
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { bytes } => write!(f, "no {bytes} bytes of host memory"),
            Self::Alignment { alignment } => write!(f, "no alignment to {alignment} bytes"),
        }
    }
}

impl std::error::Error for NoMemory {}

/// What a cache has of the system, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Given out.
    pub used: usize,
    /// Given out or kept.
    pub reserved: usize,
    /// The most that was given out.
    pub peak_used: usize,
    /// The most that was given out or kept.
    pub peak_reserved: usize,
}

/// Gives blocks out and keeps those that come back, up to a limit.
#[derive(Debug)]
pub struct Cache {
    limit: usize,
    kept: Mutex<Kept>,
}

/// The blocks that came back, by size; the one freed last is given first, for it is warm.
#[derive(Debug, Default)]
struct Kept {
    by_size: BTreeMap<usize, VecDeque<(u64, Block)>>,
    bytes: usize,
    /// Counts the blocks that came back, so that the oldest can be found.
    clock: u64,
    /// Bytes of the blocks that are given out.
    used: usize,
    peak_used: usize,
    peak_reserved: usize,
}

impl Cache {
    /// The largest alignment served.
    pub const MAX_ALIGNMENT: usize = pages::HUGE;

    /// A cache that keeps at most `limit` bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        let kept = Kept {
            by_size: BTreeMap::new(),
            bytes: 0,
            clock: 0,
            used: 0,
            peak_used: 0,
            peak_reserved: 0,
        };
        Self {
            limit,
            kept: Mutex::new(kept),
        }
    }

    /// A cache that keeps a quarter of the memory that the process may have now, and no more than a gibibyte.
    #[must_use]
    pub fn for_machine() -> Self {
        Self::new((limits::allowed_bytes() / 4).min(KEPT_BYTES))
    }

    /// Gives a block of at least `bytes` bytes.
    ///
    /// # Errors
    /// [`NoMemory`] when the system has none, or the alignment is not served.
    pub fn allocate(&self, bytes: usize, alignment: usize) -> Result<Block, NoMemory> {
        if !alignment.is_power_of_two() || alignment > Self::MAX_ALIGNMENT {
            return Err(NoMemory::Alignment { alignment });
        }
        let exhausted = NoMemory::Exhausted { bytes };
        if bytes > pages::total_bytes() {
            return Err(exhausted);
        }
        let size = size_class(bytes, alignment);
        let kept = self.kept().take(size);
        if let Some(block) = kept {
            return Ok(block);
        }
        let fresh = Block::new(size).or_else(|| {
            // What is kept may be what is missing.
            self.trim(0);
            Block::new(size)
        });
        let fresh = fresh.ok_or(exhausted)?;
        self.kept().grow(fresh.size());
        Ok(fresh)
    }

    /// Takes a block back, to keep it or to return it to the system.
    pub fn free(&self, block: Block) {
        if block.size() > self.limit {
            self.kept().used -= block.size();
            drop(block);
            return;
        }
        let evicted = self.kept().put(block, self.limit);
        drop(evicted);
    }

    /// Returns kept blocks to the system, the oldest first, until at most `keep` bytes are left, and
    /// answers how many bytes those were.
    pub fn trim(&self, keep: usize) -> usize {
        let evicted = self.kept().evict(keep);
        evicted.iter().map(Block::size).sum()
    }

    /// What is given out and kept now, and the most that was.
    pub fn usage(&self) -> Usage {
        let kept = self.kept();
        Usage {
            used: kept.used,
            reserved: kept.used + kept.bytes,
            peak_used: kept.peak_used,
            peak_reserved: kept.peak_reserved,
        }
    }

    /// Begins the peaks anew.
    pub fn reset_peaks(&self) {
        let mut kept = self.kept();
        kept.peak_used = kept.used;
        kept.peak_reserved = kept.used + kept.bytes;
    }

    /// Bytes that are kept now.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept().bytes
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Takes the block of this size that came back last, or a large one that is little larger.
    fn take(&mut self, size: usize) -> Option<Block> {
        let largest = if size < pages::HUGE {
            size
        } else {
            size + size / 8
        };
        let (&found, _) = self.by_size.range(size..=largest).next()?;
        let blocks = self.by_size.get_mut(&found)?;
        let (_, block) = blocks.pop_back()?;
        if blocks.is_empty() {
            self.by_size.remove(&found);
        }
        self.bytes -= found;
        self.used += found;
        // As much is reserved as before.
        self.peak_used = self.peak_used.max(self.used);
        Some(block)
    }

    /// Counts a fresh block that is given out.
    fn grow(&mut self, bytes: usize) {
        self.used += bytes;
        self.peak_used = self.peak_used.max(self.used);
        self.peak_reserved = self.peak_reserved.max(self.used + self.bytes);
    }

    /// Keeps a block; answers the oldest ones, which the limit pushes out.
    fn put(&mut self, block: Block, limit: usize) -> Vec<Block> {
        self.clock += 1;
        self.used -= block.size();
        self.bytes += block.size();
        self.by_size
            .entry(block.size())
            .or_default()
            .push_back((self.clock, block));
        self.evict(limit)
    }

    /// Gives up the oldest blocks until at most `limit` bytes are kept.
    fn evict(&mut self, limit: usize) -> Vec<Block> {
        let mut evicted = Vec::new();
        while self.bytes > limit {
            let Some(block) = self.take_oldest() else {
                break;
            };
            evicted.push(block);
        }
        evicted
    }

    fn take_oldest(&mut self) -> Option<Block> {
        let age = |blocks: &VecDeque<(u64, Block)>| blocks.front().map_or(u64::MAX, |kept| kept.0);
        let (&size, _) = self.by_size.iter().min_by_key(|(_, blocks)| age(blocks))?;
        let blocks = self.by_size.get_mut(&size)?;
        let (_, block) = blocks.pop_front()?;
        if blocks.is_empty() {
            self.by_size.remove(&size);
        }
        self.bytes -= size;
        Some(block)
    }
}

/// The size that a block for `bytes` bytes gets: few sizes, so that a freed block fits again.
fn size_class(bytes: usize, alignment: usize) -> usize {
    let bytes = bytes.max(pages::SMALLEST);
    if bytes > pages::HUGE / 2 || alignment > pages::PAGE {
        // Eighths of a power of two, in whole huge pages.
        let step = (bytes.next_power_of_two() / 16).max(pages::HUGE);
        return bytes.next_multiple_of(step);
    }
    let bytes = if alignment > pages::SMALLEST {
        bytes.max(pages::PAGE)
    } else {
        bytes
    };
    // Quarters of a power of two; from a page on, whole pages.
    let step = (bytes.next_power_of_two() / 8).max(pages::SMALLEST);
    let step = if bytes >= pages::PAGE {
        step.max(pages::PAGE)
    } else {
        step
    };
    bytes.next_multiple_of(step)
}

/// The most that is kept on any machine.
const KEPT_BYTES: usize = 1 << 30;
