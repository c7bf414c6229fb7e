//! Packed elements that do not start or end on a byte, copied one at a time.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

use super::axes::Axis;

/// Copies elements of `bits` bits along `axis`; offsets and strides count bits.
///
/// # Safety
/// - Every byte that holds a bit of an element is readable at `src` and both at `dst`.
/// - No other thread writes those bytes of the destination, neighbours' bits included.
pub(super) unsafe fn copy(
    bits: usize,
    axis: Axis,
    (dst, mut dst_bit): (*mut u8, isize),
    (src, mut src_bit): (*const u8, isize),
) {
    for _ in 0..axis.extent {
        let (mut to, mut from) = (dst_bit, src_bit);
        let mut left = bits;
        while left > 0 {
            // As many bits as lie in one byte on both sides.
            let room = 8 - (to.rem_euclid(8)).max(from.rem_euclid(8));
            let step = left.min(room.unsigned_abs());
            // SAFETY: these bits are part of an element, the caller's.
            unsafe { copy_within_byte(dst, to, src, from, step) };
            to = to.wrapping_add(step.cast_signed());
            from = from.wrapping_add(step.cast_signed());
            left -= step;
        }
        dst_bit = dst_bit.wrapping_add(axis.dst);
        src_bit = src_bit.wrapping_add(axis.src);
    }
}

/// Copies `count` bits, all within one byte on either side.
///
/// # Safety
/// Both bytes are accessible, as in [`copy`].
unsafe fn copy_within_byte(dst: *mut u8, to: isize, src: *const u8, from: isize, count: usize) {
    let at = dst.wrapping_offset(to.div_euclid(8));
    let source = src.wrapping_offset(from.div_euclid(8));
    // SAFETY: the caller promises that this byte is readable.
    let taken = u32::from(unsafe { source.read() }) >> shift(from);
    // SAFETY: the caller promises that this byte is readable and ours.
    let old = u32::from(unsafe { at.read() });
    let mask = ((1_u32 << count) - 1) << shift(to);
    let [new, ..] = ((old & !mask) | ((taken << shift(to)) & mask)).to_le_bytes();
    // SAFETY: the caller promises that this byte is writable and ours.
    unsafe { at.write(new) };
}

/// The place of a bit in its byte.
fn shift(bit: isize) -> usize {
    bit.rem_euclid(8).unsigned_abs()
}
