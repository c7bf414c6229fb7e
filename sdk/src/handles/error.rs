//! Why a table has no object for a word, or no word for an object.

use crate::abi::Status;
use crate::plugin::Error;

/// Why a table has no object, or takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The word names nothing that lives here.
    #[error("there is no such {what}")]
    Stale {
        /// The hook that was called with it.
        operation: &'static str,
        /// What it should have named.
        what: &'static str,
    },
    /// No word is left.
    #[error("there are too many objects to make another {what}")]
    Full {
        /// The hook that makes one.
        operation: &'static str,
        /// What it makes.
        what: &'static str,
    },
}

impl HandleError {
    /// The hook that failed.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Stale { operation, .. } | Self::Full { operation, .. } => operation,
        }
    }
}

/// `STALE`, or `OOM_HOST` for a full table.
impl From<HandleError> for Error {
    fn from(error: HandleError) -> Self {
        let status = match error {
            HandleError::Stale { .. } => Status::STALE,
            HandleError::Full { .. } => Status::OOM_HOST,
        };
        Self::new(status, error.operation(), error.to_string())
    }
}
