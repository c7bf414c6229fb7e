//! Host memory that may be too large to be had: an error, where a `Vec` ends the process.
#![expect(unsafe_code, reason = "takes over what the allocator gives")]

use std::alloc::{Layout, alloc_zeroed};

use crate::error::Error;

/// So many bytes of zeros.
///
/// # Errors
/// [`Error::Exhausted`].
pub(crate) fn zeroed(length: usize) -> Result<Vec<u8>, Error> {
    if length == 0 {
        return Ok(Vec::new());
    }
    let none = || {
        Error::exhausted(
            "make host memory",
            format!("there are no {length} bytes left"),
        )
    };
    let layout = Layout::array::<u8>(length).map_err(|_too_many| none())?;
    // SAFETY: the length is not 0.
    let first = unsafe { alloc_zeroed(layout) };
    if first.is_null() {
        return Err(none());
    }
    // SAFETY: the global allocator's, of exactly this length and capacity, and every byte is written.
    Ok(unsafe { Vec::from_raw_parts(first, length, length) })
}

/// So many bytes of a pattern that repeats.
///
/// # Errors
/// [`Error::Exhausted`].
pub(crate) fn repeated(pattern: &[u8], length: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    reserve(&mut bytes, length)?;
    while bytes.len() < length && !pattern.is_empty() {
        let more = pattern.len().min(length - bytes.len());
        bytes.extend(pattern.iter().take(more));
    }
    Ok(bytes)
}

/// Makes it longer, by zeros.
///
/// # Errors
/// [`Error::Exhausted`].
pub(crate) fn grow(bytes: &mut Vec<u8>, length: usize) -> Result<(), Error> {
    let more = length.saturating_sub(bytes.len());
    reserve(bytes, more)?;
    bytes.resize(length, 0);
    Ok(())
}

fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result<(), Error> {
    let reserved = bytes.try_reserve(more);
    reserved.map_err(|error| Error::exhausted("make host memory", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_that_is_not_to_be_had_is_an_error_and_no_end_of_the_process() {
        for length in [1 << 60, usize::MAX >> 1, usize::MAX] {
            let error = zeroed(length).unwrap_err();
            assert!(matches!(error, Error::Exhausted { .. }), "{error:?}");
        }
        for count in [1 << 58, usize::MAX >> 1] {
            let error = repeated(&[1, 2, 3], count).unwrap_err();
            assert!(matches!(error, Error::Exhausted { .. }), "{error:?}");
            let error = grow(&mut vec![1], count).unwrap_err();
            assert!(matches!(error, Error::Exhausted { .. }), "{error:?}");
        }
        assert_eq!(repeated(&[1, 2, 3], 5).unwrap(), [1, 2, 3, 1, 2]);
        let mut bytes = vec![7];
        grow(&mut bytes, 3).unwrap();
        assert_eq!(bytes, [7, 0, 0]);
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
        assert!(zeroed(0).unwrap().is_empty());
    }
}
