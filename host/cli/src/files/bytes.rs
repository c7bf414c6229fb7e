//! Bytes that a tensor can own: a mapped file, or memory of ours.
#![expect(unsafe_code, reason = "mapping a file")]

use std::{io, path::Path, sync::Arc};

use crossdock_sdk::regular;
use memmap2::Mmap;

/// Shared bytes; clones are cheap and keep the mapping alive.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<Mmap>),
    Owned(Arc<Vec<u8>>),
}

impl Bytes {
    /// Maps a regular file.
    pub(crate) fn map(path: &Path) -> io::Result<Self> {
        let file = regular::open(path)?;
        // SAFETY: the mapping is read-only and private to this process's view of the file.
        // A program that shortens the file under us raises SIGBUS, as with every mapped file;
        // the documentation of `copy` says so.
        let mapped = unsafe { Mmap::map(&file) }?;
        Ok(Self::Mapped(Arc::new(mapped)))
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Owned(owned) => owned,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(Arc::new(bytes))
    }
}
