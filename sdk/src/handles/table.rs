//! The table itself: places with numbers, and the words that name them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Handle, HandleError};
use crate::chunks::Chunks;

/// Live objects of one sort, by handles that the host holds. Any thread may call any method.
pub struct Handles<H, T> {
    /// In all of its words and in no other table's, unless 4096 were made in between.
    table: u64,
    places: Chunks<Place<T>>,
    /// Places without an object, for the next ones.
    free: Mutex<Vec<u32>>,
    handles: PhantomData<fn(H) -> H>,
}

/// On a line of its own, so that threads with objects of their own do not slow each other.
#[repr(align(64))]
pub(super) struct Place<T>(RwLock<Slot<T>>);

pub(super) struct Slot<T> {
    /// The number of the object among those that had this place; from 1 on.
    pub(super) number: u64,
    /// None also while its removal may still fail.
    object: Option<Arc<T>>,
}

impl<T> Place<T> {
    fn new() -> Self {
        Self(RwLock::new(Slot {
            number: 0,
            object: None,
        }))
    }

    // Each change is an assignment, so a panic elsewhere does not spoil it.
    fn read(&self) -> RwLockReadGuard<'_, Slot<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Slot<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Handle, T> Handles<H, T> {
    /// No objects.
    #[must_use]
    pub fn new() -> Self {
        // Of the process: the words of a plugin that was closed mean nothing to the one that is opened next.
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let table = TABLES.fetch_add(1, Ordering::Relaxed) << (64 - TABLE_BITS);
        Self {
            table,
            places: Chunks::new(FIRST_BITS),
            free: Mutex::default(),
            handles: PhantomData,
        }
    }

    /// Keeps an object, and gives its handle.
    ///
    /// # Errors
    /// [`HandleError::Full`] when more than two hundred million objects live; it was dropped.
    pub fn insert(
        &self,
        operation: &'static str,
        object: impl Into<Arc<T>>,
    ) -> Result<H, HandleError> {
        let full = || HandleError::Full {
            operation,
            what: H::NOUN,
        };
        let object = object.into();
        let free = self.free(Vec::pop);
        let index = free.or_else(|| self.places.grow(Place::new));
        let index = index
            .filter(|index| *index <= LAST_INDEX)
            .ok_or_else(full)?;
        let place = self.places.get(index).ok_or_else(full)?;
        let mut slot = place.write();
        slot.number += 1;
        slot.object = Some(object);
        Ok(H::of(self.word_of(index, slot.number)))
    }

    /// The object of a handle, which lives at least as long as the answer is held.
    ///
    /// # Errors
    /// [`HandleError::Stale`] for every word that is no live object's of this table.
    pub fn find(&self, operation: &'static str, handle: H) -> Result<Arc<T>, HandleError> {
        self.look(handle.word())
            .ok_or_else(|| Self::stale(operation))
    }

    /// Ends a handle, for good. Its object may still be held by threads that found it before.
    ///
    /// # Errors
    /// [`HandleError::Stale`], as in [`Self::find`]; of several threads that remove a handle one has the object.
    pub fn remove(&self, operation: &'static str, handle: H) -> Result<Arc<T>, HandleError> {
        self.remove_after(operation, handle, |_| Ok(()))
    }

    /// Ends a handle if `end` succeeds, which ends the object, by a vendor's call for instance. Meanwhile
    /// nobody else finds it. After a failure, or a panic, the handle names the object again.
    ///
    /// # Errors
    /// [`HandleError::Stale`], as in [`Self::find`]; what `end` answered.
    pub fn remove_after<E: From<HandleError>>(
        &self,
        operation: &'static str,
        handle: H,
        end: impl FnOnce(&Arc<T>) -> Result<(), E>,
    ) -> Result<Arc<T>, E> {
        let taken = Taken::from(self, handle.word()).ok_or_else(|| Self::stale(operation))?;
        end(&taken.object)?;
        Ok(taken.for_good())
    }

    /// Every live object.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<T>> {
        let places = self.places.taken();
        places
            .filter_map(|(_, place)| place.read().object.clone())
            .collect()
    }

    /// Ends every handle. The caller drops the objects.
    #[must_use = "the objects end when this is dropped"]
    pub fn drain(&self) -> Vec<Arc<T>> {
        let places = self.places.taken();
        let words = places.map(|(index, place)| self.word_of(index, place.read().number));
        let taken = words.filter_map(|word| Some(Taken::from(self, word)?.for_good()));
        taken.collect()
    }

    fn look(&self, word: u64) -> Option<Arc<T>> {
        let (place, number) = self.place(word)?;
        let slot = place.read();
        let object = slot.object.as_ref().filter(|_| slot.number == number);
        object.map(Arc::clone)
    }

    /// The place that a word names, and the number of the object that it means.
    pub(super) fn place(&self, word: u64) -> Option<(&Place<T>, u64)> {
        if (word ^ self.table) >> (64 - TABLE_BITS) != 0 {
            return None;
        }
        let place = self.places.get(index_of(word)?)?;
        Some((place, word >> INDEX_BITS & LAST_NUMBER))
    }

    fn word_of(&self, index: u32, number: u64) -> u64 {
        self.table | number << INDEX_BITS | u64::from(index)
    }

    /// Changes what is free.
    fn free<R>(&self, change: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        change(&mut self.free.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stale(operation: &'static str) -> HandleError {
        HandleError::Stale {
            operation,
            what: H::NOUN,
        }
    }
}

impl<H: Handle, T> Default for Handles<H, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H, T> fmt::Debug for Handles<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles").finish_non_exhaustive()
    }
}

/// An object whose word names nothing, until it is put back or taken for good.
struct Taken<'a, H: Handle, T> {
    of: &'a Handles<H, T>,
    word: u64,
    object: Arc<T>,
    is_kept: bool,
}

impl<'a, H: Handle, T> Taken<'a, H, T> {
    fn from(of: &'a Handles<H, T>, word: u64) -> Option<Self> {
        let (place, number) = of.place(word)?;
        let mut slot = place.write();
        if slot.number != number {
            return None;
        }
        let object = slot.object.take()?;
        Some(Self {
            of,
            word,
            object,
            is_kept: true,
        })
    }

    fn for_good(mut self) -> Arc<T> {
        self.is_kept = false;
        Arc::clone(&self.object)
    }
}

impl<H: Handle, T> Drop for Taken<'_, H, T> {
    fn drop(&mut self) {
        let (Some((place, number)), Some(index)) = (self.of.place(self.word), index_of(self.word))
        else {
            return;
        };
        if self.is_kept {
            place.write().object = Some(Arc::clone(&self.object));
        } else if number < LAST_NUMBER {
            self.of.free(|free| free.push(index));
        }
        // A place that has had all its numbers stays empty: its next word would be an old one.
    }
}

/// The place of a word.
pub(super) fn index_of(word: u64) -> Option<u32> {
    u32::try_from(word & u64::from(LAST_INDEX)).ok()
}

/// A word from its top: the table, the object's number in its place, and the place.
const TABLE_BITS: u32 = 12;
const NUMBER_BITS: u32 = 64 - TABLE_BITS - INDEX_BITS;
const INDEX_BITS: u32 = 28;

pub(super) const LAST_NUMBER: u64 = (1 << NUMBER_BITS) - 1;
const LAST_INDEX: u32 = (1 << INDEX_BITS) - 1;

/// The first chunk has 16 places: most plugins have few objects.
const FIRST_BITS: u32 = 4;
