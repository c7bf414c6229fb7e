//! Element formats of the buffer protocol (PEP 3118) and type texts of `__array_interface__`.

use std::ffi::CStr;

use crossdock_api::DLDataType;
use pyo3::exceptions::PyBufferError;
use pyo3::{PyErr, PyResult};

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;

/// The dtype of a format, whose elements take `itemsize` bytes; else `BufferError` that says why
/// there is none.
pub(crate) fn dtype_of(format: &str, itemsize: usize) -> PyResult<DLDataType> {
    let is_big = cfg!(target_endian = "big");
    let (letters, swapped) = match format.split_at_checked(1) {
        Some(("@" | "=", rest)) => (rest, false),
        Some(("<", rest)) => (rest, is_big),
        Some((">" | "!", rest)) => (rest, !is_big),
        _ => (format, false),
    };
    if swapped && itemsize > 1 {
        return Err(none(format!(
            "its format `{format}` is not in this machine's byte order: swap the bytes first \
             (NumPy: `a.astype(a.dtype.newbyteorder('='))`)"
        )));
    }
    let code = match letters {
        "?" => BOOL,
        "b" | "h" | "i" | "l" | "q" | "n" => INT,
        "B" | "H" | "I" | "L" | "Q" | "N" => UINT,
        "e" | "f" | "d" => FLOAT,
        "Zf" | "Zd" | "F" | "D" => COMPLEX,
        _ => return Err(none(format!("its format `{format}` has no DLPack dtype"))),
    };
    let fits = match code {
        BOOL => itemsize == 1,
        FLOAT => matches!(itemsize, 2 | 4 | 8),
        COMPLEX => matches!(itemsize, 8 | 16),
        _ => matches!(itemsize, 1 | 2 | 4 | 8),
    };
    match u8::try_from(itemsize.saturating_mul(8)) {
        Ok(bits) if fits => Ok(DLDataType {
            code,
            bits,
            lanes: 1,
        }),
        _ => Err(none(format!(
            "its format `{format}` does not have elements of {itemsize} bytes"
        ))),
    }
}

fn none(why: String) -> PyErr {
    PyBufferError::new_err(why)
}

/// The format of a dtype, in this machine's sizes and byte order; `None` where PEP 3118 has none.
pub(crate) const fn format_of(dtype: DLDataType) -> Option<&'static CStr> {
    let long_is_64 = size_of::<std::ffi::c_long>() == 8;
    match (dtype.code, dtype.bits, dtype.lanes) {
        (BOOL, 8, 1) => Some(c"?"),
        (INT, 8, 1) => Some(c"b"),
        (INT, 16, 1) => Some(c"h"),
        (INT, 32, 1) => Some(c"i"),
        (INT, 64, 1) => Some(if long_is_64 { c"l" } else { c"q" }),
        (UINT, 8, 1) => Some(c"B"),
        (UINT, 16, 1) => Some(c"H"),
        (UINT, 32, 1) => Some(c"I"),
        (UINT, 64, 1) => Some(if long_is_64 { c"L" } else { c"Q" }),
        (FLOAT, 16, 1) => Some(c"e"),
        (FLOAT, 32, 1) => Some(c"f"),
        (FLOAT, 64, 1) => Some(c"d"),
        (COMPLEX, 64, 1) => Some(c"Zf"),
        (COMPLEX, 128, 1) => Some(c"Zd"),
        _ => None,
    }
}

/// The type text of `__array_interface__`, as in `<f4`; `None` where it has none.
pub(crate) fn type_text(dtype: DLDataType) -> Option<String> {
    format_of(dtype)?;
    let letter = match dtype.code {
        BOOL => 'b',
        INT => 'i',
        UINT => 'u',
        FLOAT => 'f',
        _ => 'c',
    };
    let order = match dtype.bits {
        8 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    Some(format!("{order}{letter}{}", dtype.bits / 8))
}
