//! Bytes that a tensor can own: a mapped file, or memory of ours.
#![expect(unsafe_code, reason = "mapping a file")]

use std::{fmt, fs::File, io, sync::Arc};

use memmap2::{Mmap, MmapOptions};

/// Shared bytes; clones are cheap and keep the mapping alive.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<dyn AsRef<[u8]> + Send + Sync>),
    Owned(Arc<Vec<u8>>),
}

impl Bytes {
    /// Maps a regular file. Its pages may be written, for this process alone: a kernel may write to memory
    /// that it was told not to write. They are not reserved, since a file may be larger than memory.
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: the mapping is private to this process, and only read here. A program that shortens
        // the file under us raises SIGBUS, as with every mapped file; the documentation of `copy`
        // says so.
        if let Ok(mapped) = unsafe { MmapOptions::new().no_reserve_swap().map_copy(file) } {
            return Ok(Self::Mapped(Arc::new(mapped)));
        }
        // The system counts pages that may be written as memory, and the process may have no more.
        // SAFETY: as above.
        let mapped = unsafe { Mmap::map(file) }?;
        Ok(Self::Mapped(Arc::new(mapped)))
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => (**mapped).as_ref(),
            Self::Owned(owned) => owned,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_ref().len())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(Arc::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_four_times_the_memory_is_mapped_and_its_pages_may_be_written() {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = memory.split_whitespace().nth(1).unwrap();
        // In KiB.
        let size = 4 * 1024 * total.parse::<u64>().unwrap();
        let path = std::env::temp_dir().join(format!("crossdock-large-{}", std::process::id()));
        File::create(&path).unwrap().set_len(size).unwrap();
        let bytes = Bytes::map(&File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let bytes = bytes.unwrap();
        assert_eq!(bytes.as_ref().len() as u64, size);
        assert_eq!(bytes.as_ref().last(), Some(&0));
        let first = format!("{:x}-", bytes.as_ref().as_ptr().addr());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&first)).unwrap();
        assert!(line.contains(" rw-p "), "{line}");
    }
}
