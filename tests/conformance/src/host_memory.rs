//! Host memory on a page boundary, to be adopted.

/// Bytes of the host that begin on a page.
#[derive(Debug)]
pub(crate) struct HostMemory {
    bytes: Vec<u8>,
    start: usize,
    count: usize,
}

impl HostMemory {
    /// Holds a copy of `content`.
    pub(crate) fn new(content: &[u8]) -> Self {
        let mut bytes = vec![0; content.len() + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        for (byte, value) in bytes.iter_mut().skip(start).zip(content) {
            *byte = *value;
        }
        Self {
            bytes,
            start,
            count: content.len(),
        }
    }

    pub(crate) const fn size(&self) -> u64 {
        self.count as u64
    }

    /// The bytes, where they are.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
            .get(self.start..)
            .and_then(|bytes| bytes.get(..self.count))
            .unwrap_or(&[])
    }

    /// What it holds now.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// The address of the first byte, for a plugin that will read and write through it.
    pub(crate) fn expose(&mut self) -> u64 {
        (self.bytes.as_mut_ptr().expose_provenance() as u64).saturating_add(self.start as u64)
    }

    /// Keeps the bytes for ever, for a plugin that did not let go of them.
    pub(crate) fn leak(self) {
        let _kept: &'static mut [u8] = self.bytes.leak();
    }
}

const PAGE: usize = 4096;
