//! What the checker found: the kind, both call sites, the bytes and the edge that is missing.

use std::fmt;

use crate::Site;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum ReportKind {
    /// Two operations touch the same bytes, at least one writes, and nothing orders them.
    Race,
    /// Host code touches bytes that an operation uses, and nothing orders the two.
    HostRace,
    /// An operation uses memory after it was freed.
    UseAfterFree,
    /// Memory is freed or unregistered, and nothing orders that after an operation that uses it.
    FreeInUse,
    /// Nothing orders a use after the operation that allocates the memory.
    UseBeforeAllocation,
    /// A range of memory is not inside of one allocation.
    OutOfBounds,
    /// Bytes are read that nobody wrote.
    Uninitialised,
    /// Memory is freed that is no allocation, or was freed before.
    DoubleFree,
    /// A stream or event is used after it was destroyed.
    Stale,
    /// A wait for an event that was never recorded does nothing.
    Unrecorded,
    /// A host function called the engine.
    InHostFunction,
    /// Host memory is registered twice, unregistered that is not, or freed while it is registered.
    Registration,
    /// Everything waits, and nothing can complete it.
    Standstill,
    /// Something was left at the end.
    Leak,
}

/// One finding. The text names both calls and what would make them right.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong.
    pub kind: ReportKind,
    /// The call that came first.
    pub first: Site,
    /// The other call, where there are two.
    pub second: Option<Site>,
    /// First address and number of bytes, where it is about bytes.
    pub bytes: Option<(u64, u64)>,
    /// The streams of both calls' work, where it is about two uses; 0 is host code.
    pub streams: Option<(u64, u64)>,
    /// The missing edge, or what stands still, in words.
    pub detail: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.first)?;
        if let Some(second) = self.second {
            write!(f, " and {second}")?;
        }
        if let Some((address, bytes)) = self.bytes {
            write!(f, " at {address:#x}, {bytes} bytes")?;
        }
        write!(f, ": {}", self.detail)
    }
}
