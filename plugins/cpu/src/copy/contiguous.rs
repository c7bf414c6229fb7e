//! Runs of bytes: the C library's copy while they fit the cache, stores past it above that.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

use super::plan::{LINE, Plan};
use super::pool::Pool;

/// Copies `bytes` bytes, with the help of `pool` when there are many.
///
/// # Safety
/// `bytes` bytes are readable at `src` and writable at `dst`, apart from each other, and no other
/// thread writes them meanwhile.
pub unsafe fn copy(pool: &Pool, dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller's promise is the one that a plan of consecutive bytes asks for.
    unsafe { Plan::of_bytes(bytes).run(pool, dst, src) };
}

/// Copies on this thread. After a `streaming` copy, [`fence`] is due before another thread is told.
///
/// # Safety
/// As [`copy`].
pub(super) unsafe fn move_bytes(dst: *mut u8, src: *const u8, bytes: usize, streaming: bool) {
    if streaming {
        // SAFETY: the caller's promise, passed on whole.
        unsafe { stream_bytes(dst, src, bytes) };
    } else {
        // SAFETY: the caller's promise, passed on whole.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
    }
}

/// Copies with stores that leave the cache alone, whole lines at a time.
///
/// # Safety
/// As [`copy`].
unsafe fn stream_bytes(dst: *mut u8, src: *const u8, bytes: usize) {
    let head = dst.align_offset(LINE).min(bytes);
    // SAFETY: the part before the first line boundary.
    unsafe { dst.copy_from_nonoverlapping(src, head) };
    let lines = (bytes - head) / LINE;
    let (dst, src) = (dst.wrapping_add(head), src.wrapping_add(head));
    // SAFETY: `lines` whole lines lie within the rest, and `dst` is at a boundary now.
    unsafe { stream_lines(dst, src, lines) };
    let done = lines * LINE;
    let (dst, src) = (dst.wrapping_add(done), src.wrapping_add(done));
    // SAFETY: the part after the last line boundary.
    unsafe { dst.copy_from_nonoverlapping(src, bytes - head - done) };
}

/// Copies whole lines past the cache where the machine can.
///
/// # Safety
/// `lines` lines are readable at `src` and writable at `dst`, which is aligned to a line.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn stream_lines(dst: *mut u8, src: *const u8, lines: usize) {
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: AVX is there, and the caller's promise is passed on whole.
        unsafe { stream_lines_avx(dst, src, lines) };
    } else {
        // SAFETY: the caller's promise, passed on whole.
        unsafe { dst.copy_from_nonoverlapping(src, lines * LINE) };
    }
}

/// As the other, on machines without such stores.
///
/// # Safety
/// `lines` lines are readable at `src` and writable at `dst`.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn stream_lines(dst: *mut u8, src: *const u8, lines: usize) {
    // SAFETY: the caller's promise, passed on whole.
    unsafe { dst.copy_from_nonoverlapping(src, lines * LINE) };
}

/// Copies four pages side by side, for memory serves several pages faster than one, then the rest.
/// Nothing is fetched ahead: the processor sees four rows of loads coming, and a hint of ours takes a
/// place in its queue that a load could have had.
///
/// # Safety
/// As [`stream_lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream_lines_avx(mut dst: *mut u8, mut src: *const u8, lines: usize) {
    const PAGE: usize = PAGE_LINES * LINE;
    for _ in 0..lines / (4 * PAGE_LINES) {
        for at in (0..PAGE).step_by(PIECE) {
            let (to, from) = (dst.wrapping_add(at), src.wrapping_add(at));
            // SAFETY: a piece of the first of four pages.
            let first: [_; PIECE / HALF] = unsafe { load(from) };
            // SAFETY: the piece of the second page.
            let second: [_; PIECE / HALF] = unsafe { load(from.wrapping_add(PAGE)) };
            // SAFETY: the piece of the third page.
            let third: [_; PIECE / HALF] = unsafe { load(from.wrapping_add(2 * PAGE)) };
            // SAFETY: the piece of the fourth page.
            let fourth: [_; PIECE / HALF] = unsafe { load(from.wrapping_add(3 * PAGE)) };
            // SAFETY: as for the load, and a whole number of lines after an aligned address.
            unsafe { store(to, first) };
            // SAFETY: as for the first.
            unsafe { store(to.wrapping_add(PAGE), second) };
            // SAFETY: as for the first.
            unsafe { store(to.wrapping_add(2 * PAGE), third) };
            // SAFETY: as for the first.
            unsafe { store(to.wrapping_add(3 * PAGE), fourth) };
        }
        dst = dst.wrapping_add(4 * PAGE);
        src = src.wrapping_add(4 * PAGE);
    }
    for _ in 0..lines % (4 * PAGE_LINES) {
        // SAFETY: one of the lines that are left.
        let line: [_; LINE / HALF] = unsafe { load(src) };
        // SAFETY: likewise, and `dst` is at a line's boundary.
        unsafe { store(dst, line) };
        dst = dst.wrapping_add(LINE);
        src = src.wrapping_add(LINE);
    }
}

/// Reads half lines, one after the other.
///
/// # Safety
/// So many half lines are readable at `src`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn load<const N: usize>(src: *const u8) -> [std::arch::x86_64::__m256i; N] {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_setzero_si256};
    #[expect(clippy::cast_ptr_alignment, reason = "the load needs no alignment")]
    let from = src.cast::<__m256i>();
    let mut halves = [_mm256_setzero_si256(); N];
    for (at, half) in halves.iter_mut().enumerate() {
        // SAFETY: one of the half lines that the caller promises.
        *half = unsafe { _mm256_loadu_si256(from.wrapping_add(at)) };
    }
    halves
}

/// Writes half lines past the cache, one after the other.
///
/// # Safety
/// So many half lines are writable at `dst`, which is aligned to a line.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn store<const N: usize>(dst: *mut u8, halves: [std::arch::x86_64::__m256i; N]) {
    use std::arch::x86_64::{__m256i, _mm256_stream_si256};
    #[expect(clippy::cast_ptr_alignment, reason = "the caller aligned it to a line")]
    let to = dst.cast::<__m256i>();
    for (at, half) in halves.into_iter().enumerate() {
        // SAFETY: one of the half lines that the caller promises, aligned as the first is.
        unsafe { _mm256_stream_si256(to.wrapping_add(at), half) };
    }
}

/// Orders stores past the cache before whatever this thread does next.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has SSE, and the instruction touches no memory of ours.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks for a line that will be wanted soon.
#[inline]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 machine has SSE, and a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Lines in a page.
#[cfg(target_arch = "x86_64")]
const PAGE_LINES: usize = 64;

/// What one load reads.
#[cfg(target_arch = "x86_64")]
const HALF: usize = LINE / 2;

/// What is read of each page before any of it is written.
#[cfg(target_arch = "x86_64")]
const PIECE: usize = 2 * LINE;

/// From here on a copy would only push everything else out of the cache.
pub(super) const STREAMING_BYTES: usize = 8 << 20;
