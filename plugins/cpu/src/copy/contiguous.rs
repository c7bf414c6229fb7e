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

/// Copies pairs of pages side by side, for memory serves two pages faster than one, then the rest.
///
/// # Safety
/// As [`stream_lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream_lines_avx(mut dst: *mut u8, mut src: *const u8, lines: usize) {
    for _ in 0..lines / (2 * PAGE_LINES) {
        for line in 0..PAGE_LINES {
            let (first, second) = (line * LINE, (PAGE_LINES + line) * LINE);
            // SAFETY: a line of the first page of the pair.
            unsafe { stream_line_avx(dst.wrapping_add(first), src.wrapping_add(first)) };
            // SAFETY: a line of the second page of the pair.
            unsafe { stream_line_avx(dst.wrapping_add(second), src.wrapping_add(second)) };
        }
        dst = dst.wrapping_add(2 * PAGE_LINES * LINE);
        src = src.wrapping_add(2 * PAGE_LINES * LINE);
    }
    for _ in 0..lines % (2 * PAGE_LINES) {
        // SAFETY: one of the lines that are left.
        unsafe { stream_line_avx(dst, src) };
        dst = dst.wrapping_add(LINE);
        src = src.wrapping_add(LINE);
    }
}

/// Two half lines in, two half lines out.
///
/// # Safety
/// A line is readable at `src` and writable at `dst`, which is aligned to a line.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn stream_line_avx(dst: *mut u8, src: *const u8) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    #[expect(clippy::cast_ptr_alignment, reason = "the caller aligned it to a line")]
    let to = dst.cast::<__m256i>();
    #[expect(clippy::cast_ptr_alignment, reason = "the load needs no alignment")]
    let from = src.cast::<__m256i>();
    prefetch(src.wrapping_add(PREFETCH_BYTES));
    // SAFETY: the first half of the line, readable.
    let first = unsafe { _mm256_loadu_si256(from) };
    // SAFETY: the second half of the same line.
    let second = unsafe { _mm256_loadu_si256(from.wrapping_add(1)) };
    // SAFETY: the first half of an aligned line, writable.
    unsafe { _mm256_stream_si256(to, first) };
    // SAFETY: the second half of the same line.
    unsafe { _mm256_stream_si256(to.wrapping_add(1), second) };
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

/// How far ahead lines are fetched.
#[cfg(target_arch = "x86_64")]
const PREFETCH_BYTES: usize = 1 << 10;

/// Lines in a page.
#[cfg(target_arch = "x86_64")]
const PAGE_LINES: usize = 64;

/// From here on a copy would only push everything else out of the cache.
pub(super) const STREAMING_BYTES: usize = 8 << 20;
