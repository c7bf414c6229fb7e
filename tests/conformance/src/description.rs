//! The description that a table points at.
#![expect(unsafe_code, reason = "reads bytes by their address")]

use std::ffi::CStr;
use std::ptr::NonNull;

use crossdock::Table;
use crossdock::plugin_files::Description;

use crate::case::{Unmet, failed};

/// Reads it text by text, up to the empty one.
pub(crate) fn read(table: &Table) -> Result<Description, Unmet> {
    let start = NonNull::new(table.raw().description.as_ptr().cast_mut());
    let Some(start) = start else {
        return failed("`description` is NULL");
    };
    let mut bytes = Vec::new();
    while bytes.len() < MOST && !bytes.ends_with(&[0, 0]) {
        let next = start.as_ptr().wrapping_add(bytes.len());
        // SAFETY: `from_ptr` needs
        // - a text with its end here: a description has one behind the other until an empty one, and the
        //   contract gives the pointer one that lives for ever. What is none may end this process, which
        //   is the case's then.
        let text = unsafe { CStr::from_ptr(next.cast()) };
        bytes.extend_from_slice(text.to_bytes_with_nul());
    }
    Description::parse(&bytes).or_else(|why| failed(format!("`description` cannot be read: {why}")))
}

/// More than any description has.
const MOST: usize = 16 << 10;
