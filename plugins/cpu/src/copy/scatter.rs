//! Element by element over two axes, in blocks that stay in the first cache.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

use super::axes::Axis;

/// Copies elements of `E` bytes along `i` and `j`.
///
/// # Safety
/// Every element of the two axes is readable from `src` and writable at `dst`.
pub(super) unsafe fn copy<const E: usize>(dst: *mut u8, src: *const u8, i: Axis, j: Axis) {
    // With few elements along one axis the other may be long: both sides stay in the cache.
    let (i_block, j_block) = match (i.extent < BLOCK, j.extent < BLOCK) {
        (true, _) => (i.extent.max(1), LONG_BLOCK),
        (_, true) => (LONG_BLOCK, j.extent.max(1)),
        _ => (BLOCK, BLOCK),
    };
    for j_first in (0..j.extent).step_by(j_block) {
        let j_part = Axis {
            extent: j_block.min(j.extent.saturating_sub(j_first)),
            ..j
        };
        for i_first in (0..i.extent).step_by(i_block) {
            let i_part = Axis {
                extent: i_block.min(i.extent.saturating_sub(i_first)),
                ..i
            };
            let (steps_i, steps_j) = (i_first.cast_signed(), j_first.cast_signed());
            let dst = dst
                .wrapping_offset(i.dst.wrapping_mul(steps_i))
                .wrapping_offset(j.dst.wrapping_mul(steps_j));
            let src = src
                .wrapping_offset(i.src.wrapping_mul(steps_i))
                .wrapping_offset(j.src.wrapping_mul(steps_j));
            // SAFETY: a part of the caller's elements.
            unsafe { block::<E>(dst, src, i_part, j_part) };
        }
    }
}

/// Copies one block.
///
/// # Safety
/// As [`copy`].
unsafe fn block<const E: usize>(mut dst: *mut u8, mut src: *const u8, i: Axis, j: Axis) {
    for _ in 0..j.extent {
        let (mut to, mut from) = (dst, src);
        for _ in 0..i.extent {
            // SAFETY: one element, the caller's; `[u8; E]` has no alignment to keep.
            unsafe {
                to.cast::<[u8; E]>()
                    .copy_from_nonoverlapping(from.cast(), 1)
            };
            to = to.wrapping_offset(i.dst);
            from = from.wrapping_offset(i.src);
        }
        dst = dst.wrapping_offset(j.dst);
        src = src.wrapping_offset(j.src);
    }
}

/// Elements along each axis of a block: 32 lines on each side.
const BLOCK: usize = 32;

/// Along the longer axis when the other is short.
const LONG_BLOCK: usize = 256;
