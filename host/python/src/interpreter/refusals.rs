//! Errors of conversions in better words, and those of callers as they are.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Whether Python refused a value, and no code in Python raised this.
pub(crate) fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    let is_about_value = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py);
    // What a function in Python raised has passed a frame of it.
    is_about_value && error.traceback(py).is_none()
}

/// What `better` says of a refused value, caused by `error`; any other error as it is.
#[cold]
pub(crate) fn instead(
    py: Python<'_>,
    error: PyErr,
    better: impl FnOnce(&PyErr) -> PyResult<PyErr>,
) -> PyErr {
    if !is_refusal(py, &error) {
        return error;
    }
    match better(&error) {
        Ok(better) => {
            better.set_cause(py, Some(error));
            better
        }
        Err(failed) => failed,
    }
}

/// The value of a conversion; `None` where Python refused.
///
/// # Errors
/// What code in Python raised.
pub(crate) fn unless_refused<T>(py: Python<'_>, answer: PyResult<T>) -> PyResult<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_refusal(py, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An error whose text shows a value; what the value's own `__str__` raised, where it did.
#[cold]
pub(crate) fn showing(value: &Bound<'_, PyAny>, error: impl FnOnce(&str) -> PyErr) -> PyErr {
    match value.str() {
        Ok(text) => error(&text.to_string_lossy()),
        Err(raised) => raised,
    }
}
