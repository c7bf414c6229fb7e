//! The table of names in a plugin file. Names may overlap, so each look at one is short: a file of names
//! inside names would else take as long as its square.

use std::ffi::CStr;

/// A table of names, whose last one ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a>(&'a [u8]);

impl<'a> Names<'a> {
    /// `None` for bytes that end within a name.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.last() == Some(&0)).then_some(Self(bytes))
    }

    /// A name, cut after `most` bytes; `None` for one that is not in the table.
    pub(super) fn at(self, offset: u64, most: usize) -> Option<&'a [u8]> {
        let rest = self.0.get(usize::try_from(offset).ok()?..)?;
        let part = rest.get(..most).unwrap_or(rest);
        match CStr::from_bytes_until_nul(part) {
            Ok(name) => Some(name.to_bytes()),
            Err(_longer) => Some(part).filter(|part| !part.is_empty()),
        }
    }

    /// Whether this is the name.
    pub(super) fn is(self, offset: u64, name: &[u8]) -> bool {
        self.at(offset, name.len() + 1) == Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_at_no_further_than_needed() {
        assert!(Names::new(b"").is_none() && Names::new(b"\0a").is_none());
        let names = Names::new(b"\0long\0").unwrap();
        assert_eq!(names.at(1, 100), Some(&b"long"[..]));
        assert_eq!(names.at(1, 2), Some(&b"lo"[..]));
        assert_eq!(names.at(0, 2), Some(&b""[..]));
        assert_eq!(names.at(6, 2), None);
        assert!(names.is(1, b"long") && names.is(3, b"ng"));
        assert!(!names.is(1, b"lon") && !names.is(1, b"longer"));
    }
}
