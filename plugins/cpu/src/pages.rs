//! Blocks of memory as the system gives them: small ones from the heap, large ones as huge pages.
#![expect(unsafe_code, reason = "asks the system for memory and gives it back")]

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::OnceLock;

use crossdock_sdk::log;

/// A block of memory; dropping it returns it to the system.
#[derive(Debug)]
pub struct Block {
    address: NonNull<u8>,
    size: usize,
}

// SAFETY: a block is plain memory that nobody else refers to; any thread may use and free it.
unsafe impl Send for Block {}
// SAFETY: a shared block only tells its address and size.
unsafe impl Sync for Block {}

impl Block {
    /// Asks the system for `size` bytes; from [`HUGE`] on `size` is a multiple of it.
    pub(crate) fn new(size: usize) -> Option<Self> {
        let address = if size < HUGE {
            small(size)
        } else {
            map_huge(size)
        }?;
        Some(Self { address, size })
    }

    /// Where it starts: at a multiple of 256 bytes; of a page, or of a huge page, if it is as large.
    #[must_use]
    pub const fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.size >= HUGE {
            unmap(self.address.as_ptr(), self.size);
        } else if let Some(layout) = layout(self.size) {
            // SAFETY: `small` allocated it with the layout of the same size.
            unsafe { dealloc(self.address.as_ptr(), layout) };
        }
    }
}

fn layout(size: usize) -> Option<Layout> {
    let alignment = if size < PAGE { SMALLEST } else { PAGE };
    Layout::from_size_align(size, alignment)
        .ok()
        .filter(|layout| layout.size() > 0)
}

fn small(size: usize) -> Option<NonNull<u8>> {
    let layout = layout(size)?;
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc(layout) })
}

/// Maps `size` bytes at a multiple of a huge page.
fn map_huge(size: usize) -> Option<NonNull<u8>> {
    let mapped = size.checked_add(HUGE)?;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new private mapping, at an address of the system's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let head = start.align_offset(HUGE).min(HUGE);
    let address = start.wrapping_add(head);
    unmap(start, head);
    unmap(address.wrapping_add(size), HUGE - head);
    #[cfg(target_os = "linux")]
    // SAFETY: advice on our own pages; where it is refused, ordinary pages do.
    let _ = unsafe { libc::madvise(address.cast(), size, libc::MADV_HUGEPAGE) };
    NonNull::new(address)
}

fn unmap(address: *mut u8, size: usize) {
    if size == 0 {
        return;
    }
    // SAFETY: the range is a part of our own mapping that nothing refers to any more.
    let status = unsafe { libc::munmap(address.cast(), size) };
    if status != 0 {
        let error = std::io::Error::last_os_error();
        log::error!("{size} bytes of host memory stay mapped: munmap: {error}");
    }
}

/// The machine's memory in bytes.
pub(crate) fn total_bytes() -> usize {
    static TOTAL: OnceLock<usize> = OnceLock::new();
    *TOTAL.get_or_init(|| in_bytes(libc::_SC_PHYS_PAGES).unwrap_or(usize::MAX))
}

/// Bytes of the machine's memory that nothing uses.
pub(crate) fn free_bytes() -> usize {
    #[cfg(target_os = "linux")]
    return in_bytes(libc::_SC_AVPHYS_PAGES).unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    0
}

/// A number of pages that the system knows, in bytes.
fn in_bytes(name: libc::c_int) -> Option<usize> {
    // SAFETY: takes a number and answers a number.
    let pages = unsafe { libc::sysconf(name) };
    // SAFETY: as above.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(pages)
        .ok()?
        .checked_mul(usize::try_from(page).ok()?)
}

/// The smallest block, and the alignment of every block.
pub(crate) const SMALLEST: usize = 256;

/// Blocks of a page and more start at one.
pub(crate) const PAGE: usize = 4096;

/// Blocks of a huge page and more are mapped, and start at one.
pub(crate) const HUGE: usize = 2 << 20;
