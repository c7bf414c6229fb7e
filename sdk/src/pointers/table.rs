//! The table itself: lookup without a lock, writers under the locks of their regions.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    arena::{Arena, Pool},
    error::PointerError,
    parts::Part,
    radix::{Below as _, Change, LEAF_BITS, Root},
    record::{PointerEntry, Record},
};

/// Live ranges of addresses, at most one at each address.
///
/// ```
/// use crossdock_sdk::pointers::{PointerEntry, PointerTable};
///
/// let table = PointerTable::new();
/// table.insert(PointerEntry::new(0x7f00_0000_1000, 4096, 7, 0))?;
/// assert_eq!(table.lookup(0x7f00_0000_1fff).map(|entry| entry.allocation), Some(7));
/// assert_eq!(table.lookup(0x7f00_0000_2000), None);
/// table.remove(0x7f00_0000_1000);
/// assert_eq!(table.lookup(0x7f00_0000_1fff), None);
/// # Ok::<(), crossdock_sdk::pointers::PointerError>(())
/// ```
#[derive(Debug)]
pub struct PointerTable {
    // `None` cannot be: see `Below::new`. Then the table would be empty and full.
    root: Option<Root>,
    arena: Arena,
    shards: [Mutex<Pool>; SHARDS],
    live: AtomicUsize,
}

impl PointerTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            root: Root::new(),
            arena: Arena::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            live: AtomicUsize::new(0),
        }
    }

    /// The live range that holds the address, from any thread and without a lock.
    ///
    /// The answer was right at some moment between call and return; after `remove` has
    /// returned, the removed range is never the answer.
    ///
    /// Always inlined, as is everything on its way: an answer that is copied through memory in
    /// other pieces than it was written in holds up the query after it, whose misses in the cache
    /// would else overlap with its own. Through a hook that is half of the time.
    #[must_use]
    #[inline(always)]
    pub fn lookup(&self, address: u64) -> Option<PointerEntry> {
        let (_, entry) = self.root.as_ref()?.find(&self.arena, address)?;
        Some(entry)
    }

    /// Enters a range. All its addresses begin to answer at one moment.
    ///
    /// # Errors
    /// [`PointerError::Overlap`] names the range in the way; `Empty` and `PastTheEnd` refuse
    /// what is no range; `Full` says that no line is left. The table is unchanged then.
    pub fn insert(&self, entry: PointerEntry) -> Result<(), PointerError> {
        let PointerEntry { base, size, .. } = entry;
        let Some(reach) = size.checked_sub(1) else {
            return Err(PointerError::Empty { base });
        };
        let Some(last) = base.checked_add(reach) else {
            return Err(PointerError::PastTheEnd { base, size });
        };
        let full = PointerError::Full { base, size };
        let root = self.root.as_ref().ok_or_else(|| full.clone())?;
        let mut locked = self.lock(base, last);
        let pool = locked.pool().ok_or_else(|| full.clone())?;
        if let Some(existing) = root.overlap(&self.arena, Part::all(base, last)) {
            return Err(PointerError::Overlap {
                base,
                size,
                existing,
            });
        }
        let handle = self.arena.take_record(pool).ok_or_else(|| full.clone())?;
        let record = Record(self.arena.line(handle).ok_or_else(|| full.clone())?);
        record.prepare(&entry);
        let mut change = Change {
            arena: &self.arena,
            pool,
            record: handle,
        };
        if root.add(&mut change, Part::all(base, last)).is_err() {
            root.remove(&mut change, Part::all(base, last));
            Arena::give_record(change.pool, handle);
            return Err(full);
        }
        record.publish();
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the range that begins at `base`, and returns it; `None` where none begins.
    #[must_use = "a base that was not in the table is worth a look"]
    pub fn take(&self, base: u64) -> Option<PointerEntry> {
        self.take_if(base, |_| true)
    }

    /// Removes the range that begins at `base`, if it fits, and returns it.
    pub fn take_if(&self, base: u64, fits: impl Fn(&PointerEntry) -> bool) -> Option<PointerEntry> {
        let root = self.root.as_ref()?;
        loop {
            let (handle, entry) = root.find(&self.arena, base)?;
            if entry.base != base || !fits(&entry) {
                return None;
            }
            let mut locked = self.lock(base, entry.last());
            let pool = locked.pool()?;
            let record = Record(self.arena.line(handle)?);
            // Another thread may have removed it before this one had the locks.
            if record.read() != Some(entry) {
                continue;
            }
            record.retire();
            let mut change = Change {
                arena: &self.arena,
                pool,
                record: handle,
            };
            root.remove(&mut change, Part::all(base, entry.last()));
            Arena::give_record(change.pool, handle);
            self.live.fetch_sub(1, Ordering::Relaxed);
            return Some(entry);
        }
    }

    /// Removes the range that begins at `base`; whether there was one.
    pub fn remove(&self, base: u64) -> bool {
        self.take(base).is_some()
    }

    /// How many ranges live. A count for people: other threads change it at any time.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether no range lives. Who was told of a range after it was entered, and before it is removed, is not
    /// told that there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks the shards of all regions that the range touches, in one order for everybody.
    fn lock(&self, first: u64, last: u64) -> Locked<'_> {
        let (first, last) = (first >> LEAF_BITS, last >> LEAF_BITS);
        if first == last
            && let Some(pool) = self.shards.get(shard_of(first))
        {
            return Locked::One(lock(pool));
        }
        let mask = if last - first >= SHARDS as u64 - 1 {
            u64::MAX
        } else {
            (first..=last).fold(0, |mask, region| mask | 1 << shard_of(region))
        };
        let shards = self.shards.iter().enumerate();
        let locked = shards
            .filter(|(shard, _)| mask >> shard & 1 == 1)
            .map(|(_, pool)| lock(pool));
        Locked::Several(locked.collect())
    }
}

/// The shards that a change holds. Nearly all ranges lie in one region.
enum Locked<'a> {
    One(MutexGuard<'a, Pool>),
    Several(Vec<MutexGuard<'a, Pool>>),
}

impl Locked<'_> {
    /// Where the change takes its lines.
    fn pool(&mut self) -> Option<&mut Pool> {
        match self {
            Self::One(pool) => Some(pool),
            Self::Several(pools) => pools.first_mut().map(|pool| &mut **pool),
        }
    }
}

/// The shard of a region.
fn shard_of(region: u64) -> usize {
    usize::try_from(region % SHARDS as u64).unwrap_or(0)
}

/// No state behind these locks can be left half changed.
fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for PointerTable {
    fn default() -> Self {
        Self::new()
    }
}

/// One bit of the lock mask each.
const SHARDS: usize = 64;
