//! The tables of known memory: the only things that decide whether a word is believed.
//!
//! A query takes no lock that somebody holds for longer than it takes to copy a reference: the sdk's table
//! leads from an address, or from an object's word, to the allocation's number, and a number that is out of date
//! leads to nothing. Who changes something holds the lock of the counts.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crossdock_sdk::{
    handles::Handles,
    pointers::{PointerEntry, PointerError, PointerTable},
};

use crate::{
    fault::{Fault, Kind},
    memory::Allocation,
};

/// Every allocation that this plugin made or was told about.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    known: Handles<u64, Allocation>,
    /// From the host addresses of an allocation to its number.
    addresses: PointerTable,
    /// From a memory object to the number. Its word is an address at which nothing else is.
    objects: PointerTable,
    counts: Mutex<Counts>,
}

/// What objects are to each other, by their words.
#[derive(Debug, Default)]
struct Counts {
    /// How often an object was told about, after the first time.
    again: HashMap<u64, u32>,
    /// By the object that they are parts of: the id that parts share, and how many there are.
    parts: HashMap<u64, (u64, u32)>,
}

impl Counts {
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

    /// Whether the object was told about again; that is undone.
    fn leave_again(&mut self, object: u64) -> bool {
        let Entry::Occupied(mut again) = self.again.entry(object) else {
            return false;
        };
        *again.get_mut() -= 1;
        if *again.get() == 0 {
            again.remove();
        }
        true
    }
}

impl Pointers {
    /// Adds an allocation under each name by which others may know it.
    ///
    /// An object that was adopted before is counted once more, and the older entry is returned.
    pub(crate) fn insert(&self, allocation: Allocation) -> Result<Arc<Allocation>, Fault> {
        let mut new = Arc::new(allocation);
        // Ends before `new` does: what is refused is released without it.
        let mut counts = self.counts();
        let object = new.handle_word();
        let known = object.and_then(|object| Some((object, self.by_handle(object)?)));
        if let Some((object, known)) = known {
            if !known.adopted || known.size != new.size {
                return Err(Fault::new(
                    Kind::Conflict,
                    "adopt",
                    "this memory object is known already, with another owner or size",
                ));
            }
            *counts.again.entry(object).or_default() += 1;
            return Ok(known);
        }
        if let Some(id) = self.shared_id(&counts, &new)
            && let Some(new) = Arc::get_mut(&mut new)
        {
            new.id = id;
        }
        self.enter(&new)?;
        counts.enter_part(&new);
        Ok(new)
    }

    /// Enters it into all tables or into none.
    fn enter(&self, new: &Arc<Allocation>) -> Result<(), Fault> {
        let operation = if new.is_registered() {
            "register_host"
        } else {
            "allocate"
        };
        let number = self.known.insert(operation, Arc::clone(new))?;
        let addresses = new.known_host_word().map_or(Ok(()), |base| {
            let range = PointerEntry::new(base, new.size, new.id, number);
            self.addresses.insert(range)
        });
        let entered = addresses.and_then(|()| {
            let object = new.handle_word().map_or(Ok(()), |object| {
                self.objects
                    .insert(PointerEntry::new(object, 1, new.id, number))
            });
            object.inspect_err(|_| self.leave_addresses(new))
        });
        entered.map_err(|error| {
            drop(self.known.remove(operation, number));
            not_entered(operation, &error)
        })
    }

    fn leave_addresses(&self, allocation: &Allocation) {
        if let Some(base) = allocation.known_host_word() {
            self.addresses.remove(base);
        }
    }

    /// The id of the memory that a new object lies in, where another name of it is known.
    fn shared_id(&self, counts: &Counts, new: &Allocation) -> Option<u64> {
        let whole = new.whole_word();
        if let Some(known) = whole.and_then(|whole| self.by_handle(whole)) {
            return Some(known.id);
        }
        let of_parts = counts.parts.get(&whole.or(new.handle_word())?);
        of_parts.map(|(id, _)| *id)
    }

    /// The allocation behind a memory object, or none for a word that nobody vouched for.
    pub(crate) fn by_handle(&self, word: u64) -> Option<Arc<Allocation>> {
        self.of_entry(self.objects.lookup(word)?)
    }

    /// Whether no host address is known. Who can know one was told so after it was entered.
    #[inline]
    pub(crate) fn has_no_address(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The allocation around a host address, with the distance from its start.
    pub(crate) fn by_address(&self, address: u64) -> Option<(Arc<Allocation>, u64)> {
        let entry = self.addresses.lookup(address)?;
        Some((self.of_entry(entry)?, address - entry.base))
    }

    /// None also for one that was taken out meanwhile.
    fn of_entry(&self, entry: PointerEntry) -> Option<Arc<Allocation>> {
        self.known.find("pointer_query", entry.payload).ok()
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
        let table = if is_handle {
            &self.objects
        } else {
            &self.addresses
        };
        let mut counts = self.counts();
        let entry = table.lookup(word).filter(|entry| entry.base == word);
        let found = entry.and_then(|entry| Some((entry, self.of_entry(entry)?)));
        let Some((entry, found)) = found.filter(|(_, found)| fits(found)) else {
            return Err(Fault::new(
                Kind::NotOwner,
                operation,
                "the address is not the start of such an allocation of this plugin",
            ));
        };
        if let Some(object) = found.handle_word() {
            if counts.leave_again(object) {
                return Ok(None);
            }
            self.objects.remove(object);
            counts.leave_part(&found);
        }
        self.leave_addresses(&found);
        // `found` is another reference, so nothing is released under the lock.
        drop(self.known.remove(operation, entry.payload)?);
        Ok(Some(found))
    }

    /// Forgets everything, and hands it out so that it is released without a lock.
    pub(crate) fn drain(&self) -> Vec<Arc<Allocation>> {
        self.known.drain()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_entered(operation: &'static str, error: &PointerError) -> Fault {
    match error {
        PointerError::Overlap { .. } => Fault::new(
            Kind::Conflict,
            operation,
            "a part of it is registered or allocated here already",
        ),
        PointerError::Full { .. } => {
            Fault::new(Kind::OutOfHostMemory, operation, error.to_string())
        }
        _ => Fault::invalid(operation, error.to_string()),
    }
}
