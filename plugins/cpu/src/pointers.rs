//! Answers, for any address, which allocation it lies in.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_sdk::pointers::{PointerEntry, PointerError, PointerTable};

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
    /// More ranges are known than the table can hold.
    Full,
}

impl fmt::Display for NotEntered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRange => f.write_str("no range of addresses"),
            Self::Full => f.write_str("too many ranges of addresses"),
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

/// The known ranges, none of which overlap. A query takes no lock.
#[derive(Debug, Default)]
pub struct Pointers {
    table: PointerTable,
}

impl Pointers {
    /// Enters a range, and answers what is known of it.
    ///
    /// # Errors
    /// [`NotEntered`] when it is no range, overlaps a known one, or is one too many; nothing was
    /// changed.
    pub fn enter(
        &self,
        base: usize,
        size: usize,
        origin: Origin,
        tag: u32,
    ) -> Result<Known, NotEntered> {
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let known = Known {
            base,
            size,
            id,
            origin,
            tag,
        };
        match self.table.insert(known.to_entry()) {
            Ok(()) => Ok(known),
            Err(PointerError::Overlap { existing, .. }) => {
                Err(NotEntered::Overlaps(Known::of(&existing)))
            }
            Err(PointerError::Full { .. }) => Err(NotEntered::Full),
            Err(_) => Err(NotEntered::NoRange),
        }
    }

    /// Forgets the range that starts at `base` and came to be known this way.
    pub fn forget(&self, base: usize, origin: Origin) -> Option<Known> {
        let fits = |entry: &PointerEntry| Known::of(entry).origin == origin;
        let taken = self.table.take_if(wide(base), fits);
        taken.as_ref().map(Known::of)
    }

    /// The range that `address` lies in. Inlined as
    /// [`PointerTable::lookup`] is, up to the hook.
    #[must_use]
    #[inline(always)]
    pub fn query(&self, address: usize) -> Option<Known> {
        self.table.lookup(wide(address)).as_ref().map(Known::of)
    }

    /// How many ranges are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no range is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl Known {
    /// The entry's own word holds the tag, and above it the origin.
    fn to_entry(self) -> PointerEntry {
        let origin = match self.origin {
            Origin::Allocated => 0_u64,
            Origin::Registered => 1,
            Origin::Adopted => 2,
        };
        let payload = origin << u32::BITS | u64::from(self.tag);
        PointerEntry::new(wide(self.base), wide(self.size), self.id, payload)
    }

    #[inline]
    fn of(entry: &PointerEntry) -> Self {
        let origin = match entry.payload >> u32::BITS {
            0 => Origin::Allocated,
            1 => Origin::Registered,
            _ => Origin::Adopted,
        };
        Self {
            base: narrow(entry.base),
            size: narrow(entry.size),
            id: entry.allocation,
            origin,
            tag: u32::try_from(entry.payload & u64::from(u32::MAX)).unwrap_or(0),
        }
    }
}

/// The next id. Of the process and not of one table: a plugin may be opened again.
static IDS: AtomicU64 = AtomicU64::new(1);

/// No machine counts further than 64 bits.
#[inline]
fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What was entered was a `usize`.
#[inline]
fn narrow(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
