//! Fills memory with a repeated pattern of 1, 2, 4, 8 or 16 bytes.
#![expect(
    unsafe_code,
    reason = "writes to addresses that the caller vouches for"
)]

use crate::copy::Pool;

/// A pattern that no fill takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternLength(
    /// Its length in bytes.
    pub usize,
);

/// Where a fill writes, on its way to a worker.
#[derive(Clone, Copy, Debug)]
struct Target(*mut u8);

impl Target {
    const fn at(self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}

// SAFETY: the pointer is only written through inside `fill`, whose caller vouches for the range
// until it returns, whichever thread writes.
unsafe impl Send for Target {}
// SAFETY: as above; the workers write disjoint parts.
unsafe impl Sync for Target {}

/// Writes `pattern` over `bytes` bytes, cut short at the end if it does not fit.
///
/// # Errors
/// The length of a pattern that is not 1, 2, 4, 8 or 16; nothing was written.
///
/// # Safety
/// `bytes` bytes are writable at `dst`, and no other thread touches them meanwhile.
pub unsafe fn fill(
    pool: &Pool,
    dst: *mut u8,
    bytes: usize,
    pattern: &[u8],
) -> Result<(), PatternLength> {
    if !matches!(pattern.len(), 1 | 2 | 4 | 8 | 16) {
        return Err(PatternLength(pattern.len()));
    }
    let mut page = [0_u8; PAGE];
    for place in page.chunks_exact_mut(pattern.len()) {
        place.copy_from_slice(pattern);
    }
    let target = Target(dst);
    if bytes <= PART_BYTES {
        // SAFETY: the caller's bytes.
        unsafe { fill_part(&page, target.at(0), bytes) };
        return Ok(());
    }
    pool.run(bytes.div_ceil(PART_BYTES), move |part| {
        let first = part.saturating_mul(PART_BYTES);
        let count = PART_BYTES.min(bytes.saturating_sub(first));
        // SAFETY: parts are disjoint pieces of the caller's bytes.
        unsafe { fill_part(&page, target.at(first), count) };
    });
    Ok(())
}

/// Writes the page over `bytes` bytes, from its start.
///
/// # Safety
/// As [`fill`].
unsafe fn fill_part(page: &[u8; PAGE], dst: *mut u8, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        let count = PAGE.min(bytes - done);
        // SAFETY: `count` bytes of the page and of the caller's range.
        unsafe {
            dst.wrapping_add(done)
                .copy_from_nonoverlapping(page.as_ptr(), count)
        };
        done += count;
    }
}

/// The pattern is laid out over this many bytes first.
const PAGE: usize = 4096;

/// What a worker takes at a time; a multiple of every pattern.
const PART_BYTES: usize = 1 << 20;
