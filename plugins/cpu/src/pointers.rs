//! Answers, for any address, which allocation it lies in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// How a range of memory came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Allocated here.
    Allocated,
    /// The host's memory, registered.
    Registered,
    /// Another's memory, adopted.
    Adopted,
}

/// A known range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Known {
    /// The first address.
    pub base: usize,
    /// Bytes in the range.
    pub size: usize,
    /// Never given to another range.
    pub id: u64,
    /// How it came to be known.
    pub origin: Origin,
    /// What the owner wants to remember about it, for instance the kind of memory.
    pub tag: u32,
}

/// Why a range cannot be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotEntered {
    /// It is empty, or runs past the last address.
    NoRange,
    /// It overlaps a range that is known already.
    Overlaps(Known),
}

impl fmt::Display for NotEntered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRange => f.write_str("no range of addresses"),
            Self::Overlaps(known) => {
                write!(
                    f,
                    "overlaps {} known bytes at {:#x}",
                    known.size, known.base
                )
            }
        }
    }
}

impl std::error::Error for NotEntered {}

/// The known ranges, none of which overlap.
#[derive(Debug, Default)]
pub struct Pointers {
    ranges: RwLock<BTreeMap<usize, Known>>,
    ids: AtomicU64,
}

impl Pointers {
    /// Enters a range, and answers what is known of it.
    ///
    /// # Errors
    /// [`NotEntered`] when it is no range or overlaps a known one; nothing was changed.
    pub fn enter(
        &self,
        base: usize,
        size: usize,
        origin: Origin,
        tag: u32,
    ) -> Result<Known, NotEntered> {
        let end = base
            .checked_add(size)
            .filter(|&end| end > base)
            .ok_or(NotEntered::NoRange)?;
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, &last)) = ranges.range(..end).next_back()
            && last.base.saturating_add(last.size) > base
        {
            return Err(NotEntered::Overlaps(last));
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let known = Known {
            base,
            size,
            id,
            origin,
            tag,
        };
        ranges.insert(base, known);
        Ok(known)
    }

    /// Forgets the range that starts at `base` and came to be known this way.
    pub fn forget(&self, base: usize, origin: Origin) -> Option<Known> {
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        if ranges.get(&base)?.origin != origin {
            return None;
        }
        ranges.remove(&base)
    }

    /// The range that `address` lies in.
    #[must_use]
    pub fn query(&self, address: usize) -> Option<Known> {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        let (_, &known) = ranges.range(..=address).next_back()?;
        (address - known.base < known.size).then_some(known)
    }

    /// How many ranges are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether no range is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
