//! What a writer of the pointer table can be told.

use super::record::PointerEntry;

/// Why a range was not entered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// A range has no bytes. Size 0 is answered by the host and never entered.
    #[error("enter an empty range at `{base:#x}`")]
    Empty {
        /// The first address of the range.
        base: u64,
    },
    /// The last byte would lie past the last address.
    #[error("enter {size} bytes at `{base:#x}`, past the end of the address space")]
    PastTheEnd {
        /// The first address of the range.
        base: u64,
        /// The range in bytes.
        size: u64,
    },
    /// An address would have two owners.
    #[error(
        "enter {size} bytes at `{base:#x}` over the {} bytes at `{:#x}` of allocation {}",
        .existing.size, .existing.base, .existing.allocation
    )]
    Overlap {
        /// The first address of the range that was refused.
        base: u64,
        /// The refused range in bytes.
        size: u64,
        /// The live range in its way.
        existing: PointerEntry,
    },
    /// No room for another range: more than a hundred million are live.
    #[error("enter {size} bytes at `{base:#x}` into a full pointer table")]
    Full {
        /// The first address of the range.
        base: u64,
        /// The range in bytes.
        size: u64,
    },
}
