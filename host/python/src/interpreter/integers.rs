//! Sequences of integers: shapes, strides and axes.
#![expect(unsafe_code, reason = "asks whether an object is a sequence")]

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::PyString;
use pyo3::{ffi, prelude::*};

/// No tensor has so many axes, whose number the runtime checks.
const MOST: usize = 1 << 10;

/// The integers in a sequence. Room is taken for those that it gives: what it says of its length may be
/// anything.
///
/// # Errors
/// `TypeError` for what is no sequence of integers, `ValueError` for too many; what the sequence raises.
pub(crate) fn integers(given: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if !is_sequence(given) || given.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!(
            "a sequence of integers is needed, not {}",
            given.get_type().name()?
        )));
    }
    let mut integers = Vec::new();
    for item in given.try_iter()? {
        if integers.len() == MOST {
            return Err(PyValueError::new_err(format!(
                "more than {MOST} integers, and no tensor has so many axes"
            )));
        }
        integers.push(item?.extract()?);
    }
    Ok(integers)
}

/// Whether it has items by position, as lists and arrays do and mappings do not.
pub(crate) fn is_sequence(given: &Bound<'_, PyAny>) -> bool {
    // SAFETY: any object may be asked.
    unsafe { ffi::PySequence_Check(given.as_ptr()) != 0 }
}
