//! Host memory on a page boundary, to be adopted, and pages that are nobody's.
#![expect(unsafe_code, reason = "asks the system for a certain page")]

use std::ffi::c_void;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

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

/// Whether the system would give others of this process the page of an address: nothing is there, and
/// nobody reserved it. One that no process can have is given to nobody.
pub(crate) fn is_free_for_others(address: u64) -> bool {
    let Ok(address) = usize::try_from(address) else {
        return false;
    };
    let page = std::ptr::without_provenance_mut::<c_void>(address & !(PAGE - 1));
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: `mmap` needs
    // - a range where nothing is: the flag leaves alone what is there, and the answer is an error then.
    let Ok(given) = (unsafe { mmap_anonymous(page, PAGE, ProtFlags::empty(), flags) }) else {
        return false;
    };
    // SAFETY: `munmap` needs
    // - a page that nobody uses: it was mapped here just now, and told to nobody.
    let gone = unsafe { munmap(given, PAGE) };
    // A system that is too old for the flag gives another page instead.
    gone.is_ok() && given == page
}

const PAGE: usize = 4096;
