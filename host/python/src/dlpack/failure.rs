//! Why an exchange failed: the producer refused to export, or its export was rejected here.

use pyo3::exceptions::{PyBufferError, PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;

use crate::link::error::Failed;

/// The exception of a failed exchange, and the side that raised it. One pointer, so that the result of an exchange
/// that succeeds is small.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The producer raised it instead of an export.
    Refused(Box<PyErr>),
    /// The export cannot be used, or the request is wrong.
    Rejected(Box<PyErr>),
}

impl ExchangeError {
    /// The producer's own exception.
    #[cold]
    pub(crate) fn refused(error: PyErr) -> Self {
        Self::Refused(Box::new(error))
    }

    /// The exception of a producer that cannot export this tensor, so that another protocol may. If a copy is
    /// forbidden, a `TypeError` is final: the next protocol may copy without a word.
    ///
    /// # Errors
    /// Every other exception.
    pub(crate) fn refusal(self, py: Python<'_>, copy: Option<bool>) -> PyResult<PyErr> {
        match self {
            Self::Refused(error) if error.is_instance_of::<PyTypeError>(py) => match copy {
                Some(false) => Err(*error),
                _ => Ok(*error),
            },
            Self::Refused(error)
                if error.is_instance_of::<PyBufferError>(py)
                    || error.is_instance_of::<PyNotImplementedError>(py) =>
            {
                Ok(*error)
            }
            Self::Refused(error) | Self::Rejected(error) => Err(*error),
        }
    }
}

impl From<PyErr> for ExchangeError {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self::Rejected(Box::new(error))
    }
}

impl From<Failed> for ExchangeError {
    #[cold]
    fn from(failed: Failed) -> Self {
        Self::Rejected(Box::new(failed.into()))
    }
}

impl From<ExchangeError> for PyErr {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Refused(error) | ExchangeError::Rejected(error) => *error,
        }
    }
}
