//! What a writer of the pointer table can be told.

use super::record::PointerEntry;
use crate::abi::Status;
use crate::plugin::Error;

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

/// `CONFLICT` for memory that is known already, `OOM_HOST` for a full table, and `INVALID` for a range that
/// is none. The operation is `enter a range`; a hook that has a better name for it makes its own error.
impl From<PointerError> for Error {
    fn from(error: PointerError) -> Self {
        let status = match error {
            PointerError::Overlap { .. } => Status::CONFLICT,
            PointerError::Full { .. } => Status::OOM_HOST,
            PointerError::Empty { .. } | PointerError::PastTheEnd { .. } => Status::INVALID,
        };
        Self::new(status, "enter a range", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_answers_what_the_table_refuses_with_a_status_of_its_own() {
        let existing = PointerEntry::new(4096, 16, 1, 0);
        let (base, size) = (4096, 8);
        for (refused, status) in [
            (
                PointerError::Overlap {
                    base,
                    size,
                    existing,
                },
                Status::CONFLICT,
            ),
            (PointerError::Full { base, size }, Status::OOM_HOST),
            (PointerError::Empty { base }, Status::INVALID),
            (PointerError::PastTheEnd { base, size }, Status::INVALID),
        ] {
            let why = refused.to_string();
            let error = Error::from(refused);
            assert_eq!(error.status(), status);
            assert!(error.to_string().contains(&why), "{error}");
        }
    }
}
