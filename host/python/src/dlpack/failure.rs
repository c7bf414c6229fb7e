//! Why an exchange failed: the producer refused to export, or its export was rejected here.

use pyo3::exceptions::{PyBufferError, PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;

use crate::link::error::Failed;

/// The exception of a failed exchange, and the side that raised it.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The producer raised it instead of an export.
    Refused(PyErr),
    /// The export cannot be used, or the request is wrong.
    Rejected(PyErr),
}

impl ExchangeError {
    /// The exception of a producer that cannot export this tensor, so that another protocol may. If a copy is
    /// forbidden, a `TypeError` is final: the next protocol may copy without a word.
    ///
    /// # Errors
    /// Every other exception.
    pub(crate) fn refusal(self, py: Python<'_>, copy: Option<bool>) -> PyResult<PyErr> {
        match self {
            Self::Refused(error) if error.is_instance_of::<PyTypeError>(py) => match copy {
                Some(false) => Err(error),
                _ => Ok(error),
            },
            Self::Refused(error)
                if error.is_instance_of::<PyBufferError>(py)
                    || error.is_instance_of::<PyNotImplementedError>(py) =>
            {
                Ok(error)
            }
            Self::Refused(error) | Self::Rejected(error) => Err(error),
        }
    }
}

impl From<PyErr> for ExchangeError {
    fn from(error: PyErr) -> Self {
        Self::Rejected(error)
    }
}

impl From<Failed> for ExchangeError {
    fn from(failed: Failed) -> Self {
        Self::Rejected(failed.into())
    }
}

impl From<ExchangeError> for PyErr {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Refused(error) | ExchangeError::Rejected(error) => error,
        }
    }
}
