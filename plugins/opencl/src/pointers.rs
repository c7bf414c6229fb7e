//! The table of known memory: the only thing that decides whether a word is believed.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    ops::{Deref, DerefMut},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    fault::{Fault, Kind},
    memory::Allocation,
};

/// Every allocation that this plugin made or was told about.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    maps: RwLock<Maps>,
    /// How many ranges of host addresses are known. Without any, which is common, who asks about
    /// one needs no lock.
    ranges: AtomicUsize,
}

#[derive(Debug, Default)]
struct Maps {
    /// By memory object, with the number of times it was told about.
    handles: HashMap<u64, (Arc<Allocation>, u32)>,
    /// By first host address.
    ranges: BTreeMap<u64, Arc<Allocation>>,
    /// By the object that they are parts of: the number that parts share, and how many there are.
    parts: HashMap<u64, (u64, u32)>,
}

/// The lock held for a change. At its end readers learn how many ranges there are.
struct Changing<'a> {
    maps: RwLockWriteGuard<'a, Maps>,
    told: &'a AtomicUsize,
}

impl Deref for Changing<'_> {
    type Target = Maps;

    fn deref(&self) -> &Maps {
        &self.maps
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.told.store(self.maps.ranges.len(), Ordering::Release);
    }
}

impl Maps {
    /// Whether host memory of `new` is known already, in part or whole.
    fn overlaps(&self, new: &Allocation) -> bool {
        let first = new.host_word().unwrap_or(0);
        let before = self.ranges.range(..first.saturating_add(new.size));
        // Known ranges are apart, so the last one that begins before the end reaches furthest.
        before
            .last()
            .is_some_and(|(base, known)| base.saturating_add(known.size) > first)
    }

    /// The number of the memory that an adopted object lies in, where another name of it is known.
    fn number_of(&self, adopted: &Allocation) -> Option<u64> {
        let whole = adopted.whole_word().or(adopted.handle_word())?;
        let named = self.handles.get(&whole).map(|(known, _)| known.id);
        named.or_else(|| self.parts.get(&whole).map(|(number, _)| *number))
    }

    fn enter_part(&mut self, allocation: &Allocation) {
        if let Some(whole) = allocation.whole_word() {
            self.parts.entry(whole).or_insert((allocation.id, 0)).1 += 1;
        }
    }

    fn leave_part(&mut self, allocation: &Allocation) {
        if let Some(whole) = allocation.whole_word()
            && let Entry::Occupied(mut parts) = self.parts.entry(whole)
        {
            parts.get_mut().1 -= 1;
            if parts.get().1 == 0 {
                parts.remove();
            }
        }
    }
}

impl Pointers {
    /// Adds an allocation under each name by which others may know it.
    ///
    /// An object that was adopted before is counted once more, and the older entry is returned.
    pub(crate) fn insert(&self, mut allocation: Allocation) -> Result<Arc<Allocation>, Fault> {
        let mut maps = self.write();
        if let Some(number) = maps.number_of(&allocation) {
            allocation.id = number;
        }
        let allocation = Arc::new(allocation);
        if allocation.is_registered() && maps.overlaps(&allocation) {
            return Err(Fault::new(
                Kind::Conflict,
                "register_host",
                "a part of it is registered or allocated here already",
            ));
        }
        if let Some(word) = allocation.handle_word() {
            match maps.handles.entry(word) {
                Entry::Vacant(free) => {
                    free.insert((Arc::clone(&allocation), 1));
                    maps.enter_part(&allocation);
                }
                Entry::Occupied(mut known) => {
                    let (known, count) = known.get_mut();
                    if !known.adopted || known.size != allocation.size {
                        return Err(Fault::new(
                            Kind::Conflict,
                            "adopt",
                            "this memory object is known already, with another owner or size",
                        ));
                    }
                    *count += 1;
                    return Ok(Arc::clone(known));
                }
            }
        }
        if let Some(address) = allocation.known_host_word() {
            maps.ranges.insert(address, Arc::clone(&allocation));
        }
        Ok(allocation)
    }

    /// The allocation behind a memory object, or none for a word that nobody vouched for.
    pub(crate) fn by_handle(&self, word: u64) -> Option<Arc<Allocation>> {
        let maps = self.read();
        maps.handles.get(&word).map(|(found, _)| Arc::clone(found))
    }

    /// Whether no host address is known. Who can know one was told so after it was entered.
    #[inline]
    pub(crate) fn has_no_address(&self) -> bool {
        self.ranges.load(Ordering::Acquire) == 0
    }

    /// The allocation around a host address, with the distance from its start.
    pub(crate) fn by_address(&self, address: u64) -> Option<(Arc<Allocation>, u64)> {
        let maps = self.read();
        let (base, found) = maps.ranges.range(..=address).next_back()?;
        let distance = address - base;
        (distance < found.size).then(|| (Arc::clone(found), distance))
    }

    /// Takes out the allocation that starts at `word`, if `fits`; `Ok(None)` when it is still in
    /// use by another adoption. Nothing of it is released here.
    pub(crate) fn remove(
        &self,
        word: u64,
        is_handle: bool,
        operation: &'static str,
        fits: impl Fn(&Allocation) -> bool,
    ) -> Result<Option<Arc<Allocation>>, Fault> {
        let mut maps = self.write();
        let found = if is_handle {
            maps.handles.get(&word).map(|(found, _)| Arc::clone(found))
        } else {
            maps.ranges.get(&word).map(Arc::clone)
        };
        let Some(found) = found.filter(|found| fits(found)) else {
            return Err(Fault::new(
                Kind::NotOwner,
                operation,
                "the address is not the start of such an allocation of this plugin",
            ));
        };
        if let Some(handle) = found.handle_word() {
            if let Some((_, count)) = maps.handles.get_mut(&handle)
                && *count > 1
            {
                *count -= 1;
                return Ok(None);
            }
            maps.handles.remove(&handle);
            maps.leave_part(&found);
        }
        if let Some(address) = found.known_host_word() {
            maps.ranges.remove(&address);
        }
        Ok(Some(found))
    }

    /// Forgets everything, and hands it out so that it is released without the lock.
    pub(crate) fn drain(&self) -> Vec<Arc<Allocation>> {
        let maps = std::mem::take(&mut *self.write());
        let handles = maps.handles.into_values().map(|(found, _)| found);
        handles.chain(maps.ranges.into_values()).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Maps> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> Changing<'_> {
        Changing {
            maps: self.maps.write().unwrap_or_else(PoisonError::into_inner),
            told: &self.ranges,
        }
    }
}
