//! Which struct a consumer asks for, by `max_version` and by the draft's `version`.
#![expect(unsafe_code, reason = "reads tuples and ints without a copy")]

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::types::PyTuple;
use pyo3::{Borrowed, ffi, prelude::*};

use crate::dlpack::negotiate::{FIRST_VERSIONED, LAST_LEGACY};
use crate::interpreter::refusals::{instead, showing};

/// The struct, and the capsule's name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Versioned,
    Legacy,
    /// The new struct under the old name.
    Draft,
}

impl Form {
    const fn of_major(major: u32) -> Self {
        if major >= 1 {
            Self::Versioned
        } else {
            Self::Legacy
        }
    }
}

/// The form that `max_version` asks for.
///
/// # Errors
/// `TypeError` for what is no pair of ints, `ValueError` for one that is no version.
pub(crate) fn form_of(max_version: Option<&Bound<'_, PyAny>>) -> PyResult<Form> {
    let Some(given) = max_version.filter(|given| !given.is_none()) else {
        return Ok(Form::Legacy);
    };
    let pair = given.cast::<PyTuple>().map_err(|_other| {
        showing(given, |given| {
            PyTypeError::new_err(format!(
                "max_version is a tuple (major, minor), not {given}"
            ))
        })
    })?;
    if pair.len() != 2 {
        return Err(PyValueError::new_err(
            "max_version is a tuple (major, minor)",
        ));
    }
    let number = |at| {
        let part = pair.get_borrowed_item(at)?;
        part.extract::<u32>().map_err(|error| {
            if error.is_instance_of::<PyTypeError>(given.py()) {
                return error;
            }
            instead(given.py(), error, |_refused| {
                Ok(PyValueError::new_err("a version has no such number"))
            })
        })
    };
    let (major, _minor) = (number(0)?, number(1)?);
    Ok(Form::of_major(major))
}

/// The form that a pair of plain numbers asks for; `None` is for [`form_of`] to look at.
pub(crate) fn usual_form(given: Borrowed<'_, '_, PyAny>) -> Option<Form> {
    if !given.is_exact_instance_of::<PyTuple>() {
        return None;
    }
    let pair = given.as_ptr();
    // SAFETY: a tuple.
    if unsafe { ffi::PyTuple_Size(pair) } != 2 {
        return None;
    }
    let number = |at| {
        // SAFETY: a tuple of two.
        let part = unsafe { ffi::PyTuple_GetItem(pair, at) };
        // SAFETY: a live object, which the tuple holds.
        if unsafe { ffi::PyLong_CheckExact(part) } == 0 {
            return None;
        }
        let mut overflow = 0;
        // SAFETY: an int, and a place of ours.
        let number = unsafe { ffi::PyLong_AsLongAndOverflow(part, &raw mut overflow) };
        // Where it overflows the number is -1.
        u32::try_from(number).ok()
    };
    let (major, _minor) = (number(0)?, number(1)?);
    Some(Form::of_major(major))
}

/// The form that `version` of the draft asks for.
///
/// # Errors
/// `TypeError` for no int, `BufferError` for a version that was never released.
pub(crate) fn form_of_draft(version: &Bound<'_, PyAny>) -> PyResult<Form> {
    if version.is_none() {
        return Ok(Form::Legacy);
    }
    match version.extract::<i64>()? {
        FIRST_VERSIONED.. => Ok(Form::Draft),
        ..=LAST_LEGACY => Ok(Form::Legacy),
        _ => Err(PyBufferError::new_err(
            "versions 61 to 99 of the draft were never released: ask for 60 or 100",
        )),
    }
}
