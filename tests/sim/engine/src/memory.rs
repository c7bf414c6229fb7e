//! What is allocated where: addresses of each device, registered host ranges, and what was freed.

use std::collections::BTreeMap;

use crate::shadow::Mark;
use crate::{Error, MemoryKind, Site, Usage};

/// Between two allocations, so that a small slip meets nobody.
const GAP: u64 = 512;

/// How far an allocation is through its life.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Life {
    /// Its stream did not reach the allocation yet.
    Promised,
    Live,
    /// Freed, by a stream or by the host.
    Freed(Mark),
}

/// One allocation, also after it was freed until its addresses are used again.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) id: u64,
    pub(crate) device: u32,
    pub(crate) kind: MemoryKind,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Bytes of addresses that it takes, and how many of them are before its first byte.
    pub(crate) room: u64,
    pub(crate) lead: u64,
    /// Whether another process may open it, and whether it is another process's.
    pub(crate) is_exported: bool,
    pub(crate) is_imported: bool,
    pub(crate) site: Site,
    pub(crate) life: Life,
    /// The pool that it comes from; 0 is none.
    pub(crate) pool: u64,
    /// The call that frees it, which a stream may not have reached.
    pub(crate) freed_by: Option<Site>,
}

impl Allocation {
    /// One that has no place yet.
    pub(crate) const fn new(
        site: Site,
        device: u32,
        bytes: u64,
        kind: MemoryKind,
        life: Life,
    ) -> Self {
        Self {
            id: 0,
            device,
            kind,
            start: 0,
            bytes,
            room: bytes,
            lead: 0,
            is_exported: false,
            is_imported: false,
            site,
            life,
            pool: 0,
            freed_by: None,
        }
    }

    pub(crate) const fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// Bytes that it takes of its device's memory.
    fn counted(&self) -> u64 {
        if self.kind == MemoryKind::Pinned || self.is_imported {
            0
        } else {
            self.bytes
        }
    }
}

/// A registered range of host memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) id: u64,
    pub(crate) device: u32,
    pub(crate) bytes: u64,
    pub(crate) site: Site,
}

/// The addresses of one device: given out upwards, and again only when all were.
#[derive(Debug)]
struct Space {
    next: u64,
    end: u64,
    freed: BTreeMap<u64, u64>,
    usage: Usage,
    total: u64,
}

impl Space {
    fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let at = self.next.checked_next_multiple_of(alignment)?;
        let end = at.checked_add(bytes)?.checked_add(GAP)?;
        if end <= self.end {
            self.next = end;
            return Some(at);
        }
        let fits = |(&from, &length): (&u64, &u64)| {
            let at = from.next_multiple_of(alignment);
            (at + bytes + GAP <= from + length).then_some((from, at, from + length))
        };
        let (from, at, end) = self.freed.iter().find_map(fits)?;
        self.freed.remove(&from);
        let behind = at + bytes + GAP;
        if at > from {
            self.freed.insert(from, at - from);
        }
        if end > behind {
            self.freed.insert(behind, end - behind);
        }
        Some(at)
    }

    fn give(&mut self, start: u64, bytes: u64) {
        let (mut from, mut end) = (start, start + bytes + GAP);
        if let Some((&before, &length)) = self.freed.range(..from).next_back()
            && before + length == from
        {
            self.freed.remove(&before);
            from = before;
        }
        if let Some(length) = self.freed.remove(&end) {
            end += length;
        }
        self.freed.insert(from, end - from);
    }
}

/// All that is known about addresses.
#[derive(Debug)]
pub(crate) struct Memory {
    spaces: Vec<Space>,
    /// What the pools of each device have, by its index and theirs.
    pools: BTreeMap<(u32, u64), Usage>,
    /// By first address; those that were freed stay until their addresses are used again.
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    /// By vendor and first address.
    pub(crate) registered: BTreeMap<(u32, u64), Registered>,
    next_id: u64,
}

impl Memory {
    /// Of devices with these ranges of addresses and `total` bytes each.
    pub(crate) fn new(ranges: impl Iterator<Item = (u64, u64)>, total: u64) -> Self {
        let space = |(next, end)| Space {
            next,
            end,
            freed: BTreeMap::new(),
            usage: Usage::default(),
            total,
        };
        Self {
            spaces: ranges.map(space).collect(),
            pools: BTreeMap::new(),
            allocations: BTreeMap::new(),
            registered: BTreeMap::new(),
            next_id: 1,
        }
    }

    pub(crate) const fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Free bytes of a device, and all. What its pools keep is not free.
    pub(crate) fn info(&self, device: u32) -> Option<(u64, u64)> {
        let space = self.space(device)?;
        let pools = self.pools.range((device, 0)..=(device, u64::MAX));
        let kept: u64 = pools.map(|(_, pool)| pool.reserved - pool.used).sum();
        let free = space.total - space.usage.used;
        Some((free.saturating_sub(kept), space.total))
    }

    /// What is reserved and used of a device, and the most that was.
    pub(crate) fn usage(&self, device: u32) -> Option<Usage> {
        Some(self.space(device)?.usage)
    }

    /// Gives kept memory back, until at most `keep` bytes of it are left.
    pub(crate) fn trim(&mut self, device: u32, keep: u64) -> Option<()> {
        let space = self.spaces.get_mut(usize::try_from(device).ok()?)?;
        space.usage.trim(space.usage.used.saturating_add(keep));
        Some(())
    }

    /// Begins the peaks of a device anew.
    pub(crate) fn reset_peaks(&mut self, device: u32) -> Option<()> {
        let space = self.spaces.get_mut(usize::try_from(device).ok()?)?;
        space.usage.reset_peaks();
        Some(())
    }

    /// What a pool of a device has.
    pub(crate) fn pool(&mut self, device: u32, pool: u64) -> &mut Usage {
        self.pools.entry((device, pool)).or_default()
    }

    fn space(&self, device: u32) -> Option<&Space> {
        self.spaces.get(usize::try_from(device).ok()?)
    }

    /// Finds room and enters the allocation.
    /// `room` is how much of the addresses it takes: at least its bytes.
    pub(crate) fn allocate(
        &mut self,
        wanted: Allocation,
        alignment: u64,
        room: u64,
    ) -> Result<u64, Error> {
        let (device, bytes) = (wanted.device, wanted.bytes);
        let at = usize::try_from(device).ok();
        let Some(space) = at.and_then(|device| self.spaces.get_mut(device)) else {
            return Err(Error::Invalid {
                why: format!("there is no device {device}"),
            });
        };
        let room = room.max(bytes);
        let counted = wanted.counted();
        let free = space.total - space.usage.used;
        let found = (counted <= free)
            .then(|| space.take(room, alignment))
            .flatten();
        let Some(from) = found else {
            return Err(Error::OutOfMemory {
                device,
                bytes,
                free,
            });
        };
        space.usage.grow(counted);
        let start = from + wanted.lead;
        let end = start + bytes;
        let old: Vec<u64> = self.overlapping(start, end).map(|a| a.start).collect();
        for start in old {
            self.allocations.remove(&start);
        }
        if wanted.pool != 0 {
            self.pool(device, wanted.pool).grow(counted);
        }
        let id = self.next_id();
        self.allocations.insert(
            start,
            Allocation {
                id,
                start,
                room,
                ..wanted
            },
        );
        Ok(start)
    }

    /// Gives the bytes and, for later, the addresses back.
    pub(crate) fn give_back(&mut self, start: u64) {
        let Some(allocation) = self.allocations.get(&start) else {
            return;
        };
        let at = usize::try_from(allocation.device).ok();
        let Some(space) = at.and_then(|device| self.spaces.get_mut(device)) else {
            return;
        };
        let counted = allocation.counted();
        space.usage.used -= counted;
        space.give(start - allocation.lead, allocation.room);
        if allocation.pool != 0 {
            let (device, pool) = (allocation.device, allocation.pool);
            self.pool(device, pool).used -= counted;
        }
    }

    /// The allocation, freed ones included, that an address is in.
    pub(crate) fn find(&self, at: u64) -> Option<&Allocation> {
        self.allocations
            .range(..=at)
            .next_back()
            .map(|(_, a)| a)
            .filter(|a| at < a.end())
    }

    pub(crate) fn by_id(&self, start: u64, id: u64) -> Option<&Allocation> {
        self.allocations.get(&start).filter(|a| a.id == id)
    }

    /// The last allocation that begins at or before an address.
    pub(crate) fn before(&self, at: u64) -> Option<&Allocation> {
        self.allocations.range(..=at).next_back().map(|(_, a)| a)
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Allocation> {
        let first = self.find(start).map_or(start, |a| a.start);
        self.allocations.range(first..end).map(|(_, a)| a)
    }

    /// The range that an address is in of those that a vendor registered.
    pub(crate) fn registered_at(&self, vendor: u32, at: u64) -> Option<(u64, Registered)> {
        let own = self.registered.range((vendor, 0)..=(vendor, at));
        let (&(_, start), range) = own.last()?;
        (at < start + range.bytes).then_some((start, *range))
    }
}

#[cfg(test)]
mod tests {
    use super::{Allocation, Life, Memory};
    use crate::{MemoryKind, Site};

    fn wanted(bytes: u64) -> Allocation {
        Allocation::new(Site::new("a"), 0, bytes, MemoryKind::Device, Life::Live)
    }

    #[test]
    fn what_is_freed_is_kept_until_it_is_used_again_or_trimmed() {
        let mut memory = Memory::new([(4096, 1 << 20)].into_iter(), 4096);
        let usage = |memory: &Memory| {
            let found = memory.usage(0).unwrap();
            (found.reserved, found.used)
        };
        let first = memory.allocate(wanted(1024), 512, 1024).unwrap();
        memory.give_back(first);
        assert_eq!(usage(&memory), (1024, 0));
        memory.allocate(wanted(512), 512, 512).unwrap();
        assert_eq!(usage(&memory), (1024, 512));
        memory.trim(0, 256).unwrap();
        assert_eq!(usage(&memory), (768, 512));
        assert_eq!(memory.usage(0).unwrap().peak_used, 1024);
        memory.reset_peaks(0).unwrap();
        let after = memory.usage(0).unwrap();
        assert_eq!((after.peak_reserved, after.peak_used), (768, 512));
    }

    #[test]
    fn addresses_come_back_only_when_all_were_given_out() {
        let mut memory = Memory::new([(4096, 4096 + 4 * 1024)].into_iter(), 4096);
        let first = memory.allocate(wanted(512), 512, 512).unwrap();
        memory.give_back(first);
        let others: Vec<u64> = (0..3)
            .map(|_| memory.allocate(wanted(512), 512, 512).unwrap())
            .collect();
        assert!(!others.contains(&first));
        assert_eq!(memory.allocate(wanted(512), 512, 512).unwrap(), first);
        assert!(memory.allocate(wanted(512), 512, 512).is_err());
    }
}
