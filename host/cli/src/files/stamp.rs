//! Whether a file was written to while its bytes were in use: such a file is at fault, and no plugin is.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// An open file, and its length and times when it was opened.
#[derive(Debug)]
pub(crate) struct Stamped {
    file: File,
    stamp: Stamp,
}

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    written: (i64, i64),
}

impl Stamped {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let stamp = Stamp::of(&file)?;
        Ok(Self { file, stamp })
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Fails if the file was written to, or shortened, since it was opened.
    pub(crate) fn check(&self) -> io::Result<()> {
        if Stamp::of(&self.file)? == self.stamp {
            return Ok(());
        }
        Err(io::Error::other(
            "another program wrote to it while it was in use",
        ))
    }
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let facts = file.metadata()?;
        Ok(Self {
            length: facts.len(),
            written: (facts.mtime(), facts.mtime_nsec()),
        })
    }
}
