//! Elements at equal distances, brought together in dense rows.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

use super::axes::Axis;
use super::contiguous::stream_lines;
use super::plan::{LINE, Width};
use super::tile::Tile;

/// Copies the elements of `axis`, strided in the source, dense in the destination.
///
/// # Safety
/// Every element is readable at its place from `src`, and `axis.extent` elements are writable at `dst`.
pub(super) unsafe fn gather(
    width: Width,
    dst: *mut u8,
    src: *const u8,
    axis: Axis,
    streaming: bool,
) {
    let row = match width {
        Width::W1 => gather_row::<1>,
        Width::W2 => gather_row::<2>,
        Width::W4 => gather_row::<4>,
        Width::W8 => gather_row::<8>,
        Width::W16 => gather_row::<16>,
    };
    if !streaming || dst.align_offset(LINE) != 0 {
        // SAFETY: the caller's promise, passed on whole.
        unsafe { row(dst, src, axis.extent, axis.src) };
        return;
    }
    let mut tile = Tile::new();
    let in_tile = Tile::BYTES / width.bytes();
    let (mut to, mut from, mut left) = (dst, src, axis.extent);
    while left >= in_tile {
        // SAFETY: `in_tile` elements are the caller's, and fill the tile exactly.
        unsafe { row(tile.bytes_mut(), from, in_tile, axis.src) };
        // SAFETY: a tile's worth of the destination, at a line boundary.
        unsafe { stream_lines(to, tile.bytes(), Tile::BYTES / LINE) };
        to = to.wrapping_add(Tile::BYTES);
        from = from.wrapping_offset(axis.src.wrapping_mul(in_tile.cast_signed()));
        left -= in_tile;
    }
    // SAFETY: what is left of the caller's elements.
    unsafe { row(to, from, left, axis.src) };
}

/// Copies `count` elements of `E` bytes that lie `stride` bytes apart.
///
/// # Safety
/// As [`gather`].
unsafe fn gather_row<const E: usize>(dst: *mut u8, src: *const u8, count: usize, stride: isize) {
    let Some(pairs) = count.checked_sub(1) else {
        return;
    };
    if stride == (2 * E).cast_signed() {
        // The last element's neighbour may lie outside the source, so it goes by itself.
        // SAFETY: `pairs` elements and their neighbours lie before the last element.
        let from = unsafe { std::slice::from_raw_parts(src.cast::<[[u8; E]; 2]>(), pairs) };
        // SAFETY: `pairs` elements are writable, and nothing else refers to them.
        let to = unsafe { std::slice::from_raw_parts_mut(dst.cast::<[u8; E]>(), pairs) };
        for (to, [element, _]) in to.iter_mut().zip(from) {
            *to = *element;
        }
        let from = src.wrapping_add(pairs * 2 * E);
        let to = dst.wrapping_add(pairs * E);
        // SAFETY: the last element.
        unsafe { to.copy_from_nonoverlapping(from, E) };
        return;
    }
    let (mut to, mut from) = (dst.cast::<[u8; E]>(), src);
    for _ in 0..count {
        // SAFETY: one element, the caller's; `[u8; E]` has no alignment to keep.
        unsafe { to.copy_from_nonoverlapping(from.cast(), 1) };
        to = to.wrapping_add(1);
        from = from.wrapping_offset(stride);
    }
}
