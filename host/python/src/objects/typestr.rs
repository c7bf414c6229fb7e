//! Dtypes as the array interfaces write them: `<f4`.

use crossdock_api::DLDataType;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// Letter of a `typestr`, DLPack's code, and the sizes in bytes that both know.
const TYPES: &[(char, u8, &[u8])] = &[
    ('i', 0, &[1, 2, 4, 8]),
    ('u', 1, &[1, 2, 4, 8]),
    ('f', 2, &[2, 4, 8]),
    ('c', 5, &[8, 16]),
    ('b', 6, &[1]),
];

/// How a dtype is written; `None` where the interfaces have no name for it.
pub(crate) fn typestr_of(dtype: DLDataType) -> Option<String> {
    let bytes = dtype.bits / 8;
    let (letter, _, _) = TYPES.iter().find(|(_, code, sizes)| {
        *code == dtype.code
            && dtype.lanes == 1
            && dtype.bits.is_multiple_of(8)
            && sizes.contains(&bytes)
    })?;
    let order = if bytes == 1 { '|' } else { '<' };
    Some(format!("{order}{letter}{bytes}"))
}

/// The dtype that is written so.
///
/// # Errors
/// `ValueError` for what is no `typestr`; `BufferError` for the other byte order, and for types that
/// DLPack does not have.
pub(crate) fn dtype_of(typestr: &str) -> PyResult<DLDataType> {
    let mut letters = typestr.chars();
    let (order, letter) = (letters.next(), letters.next());
    let bytes = letters.as_str().parse::<u8>();
    let (Some(order @ ('<' | '>' | '|' | '=')), Some(letter), Ok(bytes)) = (order, letter, bytes)
    else {
        return Err(PyValueError::new_err(format!(
            "{typestr:?} is no typestr like \"<f4\""
        )));
    };
    let known = TYPES
        .iter()
        .find(|(name, _, sizes)| *name == letter && sizes.contains(&bytes));
    let Some((_, code, _)) = known else {
        return Err(PyBufferError::new_err(format!(
            "DLPack has no dtype for {typestr:?}"
        )));
    };
    if order == '>' && bytes > 1 {
        return Err(PyBufferError::new_err(format!(
            "{typestr:?} is big-endian, which no device here reads: convert it first"
        )));
    }
    Ok(DLDataType {
        code: *code,
        bits: bytes.saturating_mul(8),
        lanes: 1,
    })
}
