//! Memory that grows and never moves: chunks of doubling length, in large pages where there are.
#![expect(
    unsafe_code,
    reason = "asks the kernel for large pages, and reads items by handles that need no bounds"
)]

use std::marker::PhantomData;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicPtr, AtomicU32, Ordering},
};

/// Items with 30-bit handles. An item keeps its address while the whole lives.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    /// Where each chunk begins, or null where there is none yet. The top bit of a handle names
    /// its chunk and the bits below it the item, so chunk `n` has `1 << n` items.
    chunks: [AtomicPtr<T>; CHUNKS],
    /// The handle after the last one given out; 0 is no handle.
    next: AtomicU32,
    making: Mutex<()>,
    /// What it owns, and so which threads may have it: the pointers above would let all.
    items: PhantomData<Box<[T]>>,
}

impl<T> Chunks<T> {
    /// No chunk yet; the first will have `1 << first_bits` items.
    pub(crate) fn new(first_bits: u32) -> Self {
        Self {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            next: AtomicU32::new(1 << first_bits),
            making: Mutex::default(),
            items: PhantomData,
        }
    }

    /// The item of a handle. Few steps: a query that waits for memory keeps them all waiting.
    #[inline(always)]
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        let top = handle.checked_ilog2()?;
        let chunk = self.chunks.get(usize::try_from(top).ok()?)?;
        let start = chunk.load(Ordering::Acquire);
        if start.is_null() {
            return None;
        }
        let item = start.wrapping_add(usize::try_from(handle ^ (1 << top)).ok()?);
        // SAFETY:
        // - Chunk `top` has `1 << top` items, and what is left of the handle is less than that.
        // - They were written before the chunk could be seen, and live as long as `self`.
        // - Nobody has a mutable reference to one before `self` is dropped.
        Some(unsafe { &*item })
    }

    /// The items that were taken so far, with their handles.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (u32, &T)> {
        let handles = 0..self.next.load(Ordering::Relaxed);
        handles.filter_map(|handle| Some((handle, self.get(handle)?)))
    }

    /// Takes an item that was never used; `None` when all are taken.
    pub(crate) fn grow(&self, new: impl Fn() -> T) -> Option<u32> {
        let next = |next: u32| (next < LIMIT).then_some(next + 1);
        let handle = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()?;
        let top = handle.checked_ilog2()?;
        let chunk = self.chunks.get(usize::try_from(top).ok()?)?;
        if chunk.load(Ordering::Acquire).is_null() {
            let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            if chunk.load(Ordering::Acquire).is_null() {
                let items = Box::into_raw(filled(1 << top, new));
                chunk.store(items.cast(), Ordering::Release);
            }
        }
        Some(handle)
    }
}

impl<T> Drop for Chunks<T> {
    fn drop(&mut self) {
        for (top, chunk) in self.chunks.iter_mut().enumerate() {
            let start = std::mem::replace(chunk.get_mut(), std::ptr::null_mut());
            if !start.is_null() {
                let items = std::ptr::slice_from_raw_parts_mut(start, 1 << top);
                // SAFETY: `grow` made it of a box of so many items, and it is taken here once.
                drop(unsafe { Box::from_raw(items) });
            }
        }
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

const CHUNKS: usize = 32;

/// One above the last handle: the two bits above tell a list and a cut from a record.
const LIMIT: u32 = 1 << 30;

const SMALL_PAGE: usize = 64 << 10;
const LARGE_PAGE: usize = 2 << 20;
