//! Memory that grows and never moves: chunks of doubling length, in large pages where there are.
#![expect(unsafe_code, reason = "asks the kernel for large pages")]

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

/// Items with 30-bit handles. An item keeps its address while the whole lives.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
    /// The handle after the last one given out. The top bit of a handle names its chunk, so
    /// the first chunk begins at its own length, and 0 is no handle.
    next: AtomicU32,
    first_bits: u32,
}

impl<T> Chunks<T> {
    /// No chunk yet; the first will have `1 << first_bits` items.
    pub(super) fn new(first_bits: u32) -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            next: AtomicU32::new(1 << first_bits),
            first_bits,
        }
    }

    /// The item of a handle.
    #[inline]
    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        self.from(handle)?.first()
    }

    /// The item of a handle and those after it in its chunk.
    #[inline]
    pub(super) fn from(&self, handle: u32) -> Option<&[T]> {
        let top = handle.checked_ilog2()?;
        let chunk = usize::try_from(top.checked_sub(self.first_bits)?).ok()?;
        self.chunks
            .get(chunk)?
            .get()?
            .get(usize::try_from(handle ^ (1 << top)).ok()?..)
    }

    /// Takes `1 << bits` items in a row that were never used; `None` when all are taken.
    /// Runs are aligned to their length, as chunks are, so none straddles two chunks.
    pub(super) fn grow(&self, bits: u32, new: impl Fn() -> T) -> Option<u32> {
        let length = 1_u32.checked_shl(bits)?;
        let start = |next: u32| next.checked_next_multiple_of(length);
        let end = |next: u32| start(next)?.checked_add(length).filter(|end| *end <= LIMIT);
        let before = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, end)
            .ok()?;
        let handle = start(before)?;
        let top = handle.checked_ilog2()?;
        let chunk = usize::try_from(top.checked_sub(self.first_bits)?).ok()?;
        self.chunks
            .get(chunk)?
            .get_or_init(|| filled(1 << top, new));
        Some(handle)
    }
}

/// A chunk. Its random reads miss the page tables' cache less often in large pages.
fn filled<T>(length: usize, new: impl Fn() -> T) -> Box<[T]> {
    let mut items = Vec::with_capacity(length);
    let (start, bytes) = (items.as_ptr() as usize, length * size_of::<T>());
    let first = start.next_multiple_of(SMALL_PAGE);
    let end = (start + bytes) / SMALL_PAGE * SMALL_PAGE;
    if bytes >= LARGE_PAGE && first < end {
        let at = std::ptr::without_provenance_mut::<libc::c_void>(first);
        // SAFETY: whole pages within the allocation above, and the advice changes no content.
        // A kernel without large pages refuses it, which is as good.
        let _advice = unsafe { libc::madvise(at, end - first, libc::MADV_HUGEPAGE) };
    }
    items.resize_with(length, new);
    items.into_boxed_slice()
}

const CHUNKS: usize = 30;

/// One above the last handle: the two bits above tell a list and granules from a record.
const LIMIT: u32 = 1 << 30;

const SMALL_PAGE: usize = 64 << 10;
const LARGE_PAGE: usize = 2 << 20;
