//! Transposes in tiles of whole cache lines: rows in, turned round in registers, rows out.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

use super::axes::Axis;
use super::contiguous::{prefetch, stream_lines};
use super::plan::{LINE, PANEL_LINES, Width};
use super::transpose::{Turn, turn};

/// Up to 64 rows of one cache line each.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Tile([[u8; LINE]; 64]);

impl Tile {
    /// Bytes in a tile.
    pub(super) const BYTES: usize = LINE * 64;

    /// A tile of zeros.
    pub(super) const fn new() -> Self {
        Self([[0; LINE]; 64])
    }

    /// Its first byte.
    pub(super) const fn bytes(&self) -> *const u8 {
        (&raw const self.0).cast()
    }

    /// Its first byte, to write.
    pub(super) const fn bytes_mut(&mut self) -> *mut u8 {
        (&raw mut self.0).cast()
    }

    /// Its rows.
    pub(super) const fn rows(&self) -> &[[u8; LINE]; 64] {
        &self.0
    }

    /// Its rows, to write.
    pub(super) const fn rows_mut(&mut self) -> &mut [[u8; LINE]; 64] {
        &mut self.0
    }
}

/// Tiles side by side: as many rows as a tile, each of `PANEL_LINES` lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Strip([[[u8; LINE]; PANEL_LINES]; 64]);

impl Strip {
    /// Its rows, to write.
    pub(super) const fn rows_mut(&mut self) -> &mut [[[u8; LINE]; PANEL_LINES]; 64] {
        &mut self.0
    }
}

/// Room for a transpose to work in, made once and used for many blocks.
#[derive(Debug)]
pub(super) struct Scratch {
    staged: Tile,
    strip: Strip,
}

impl Scratch {
    /// Room of zeros, which is too large for the stack of a thread: 20 KiB, of which a build for debugging
    /// would keep several copies there.
    pub(super) fn new() -> Box<Self> {
        let mut room = Box::<Self>::new_uninit();
        // SAFETY: room for one.
        unsafe { room.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: it is made of bytes, each of which was written.
        unsafe { room.assume_init() }
    }
}

/// What stays the same over one transpose.
struct Panel {
    turn: Turn,
    width: usize,
    /// Elements along each side of a full tile.
    side: usize,
    /// Bytes between rows of the source.
    src_row: isize,
    /// Bytes between rows of the destination.
    dst_row: isize,
    streaming: bool,
}

/// Copies elements that are dense along `i` in the destination and along `j` in the source.
///
/// # Safety
/// Every element of the two axes is readable from `src` and writable at `dst`.
pub(super) unsafe fn transpose(
    scratch: &mut Scratch,
    width: Width,
    (dst, src): (*mut u8, *const u8),
    (i, j): (Axis, Axis),
    streaming: bool,
) {
    let line = LINE.cast_signed();
    let panel = Panel {
        turn: turn(width),
        width: width.bytes(),
        side: LINE / width.bytes(),
        src_row: i.src,
        dst_row: j.dst,
        streaming: streaming && j.dst % line == 0 && dst.align_offset(LINE) == 0,
    };
    let block = panel.side * PANEL_LINES;
    for i_first in (0..i.extent).step_by(block) {
        let rows = block.min(i.extent - i_first);
        let dst = dst.wrapping_add(i_first * panel.width);
        let src = src.wrapping_offset(i.src.wrapping_mul(i_first.cast_signed()));
        for j_first in (0..j.extent).step_by(panel.side) {
            let columns = panel.side.min(j.extent - j_first);
            let to = dst.wrapping_offset(j.dst.wrapping_mul(j_first.cast_signed()));
            let from = src.wrapping_add(j_first * panel.width);
            // SAFETY: `rows` by `columns` of the caller's elements, no more than a block.
            unsafe { panel.turn_block(scratch, to, from, (rows, columns)) };
        }
    }
}

impl Panel {
    /// Moves up to `PANEL_LINES` tiles that lie side by side in the destination.
    ///
    /// # Safety
    /// `rows` by `columns` elements, at most `PANEL_LINES` tiles, are readable at `src` and
    /// writable at `dst`.
    unsafe fn turn_block(
        &self,
        scratch: &mut Scratch,
        dst: *mut u8,
        mut src: *const u8,
        (rows, columns): (usize, usize),
    ) {
        let mut left = rows;
        for at in 0..PANEL_LINES {
            let here = left.min(self.side);
            if here == 0 {
                break;
            }
            // SAFETY: `here` rows of `columns` elements, the caller's.
            src = unsafe { self.stage(&mut scratch.staged, src, here, columns * self.width) };
            (self.turn)(&scratch.staged, &mut scratch.strip, at);
            left -= here;
        }
        // SAFETY: `columns` rows of `rows` elements, the caller's.
        unsafe { self.put(&scratch.strip, dst, rows * self.width, columns) };
    }

    /// Brings rows of the source in, and answers where the next row lies.
    ///
    /// # Safety
    /// `rows` rows of `bytes` bytes are readable at `src`; neither exceeds a tile.
    unsafe fn stage(
        &self,
        staged: &mut Tile,
        mut src: *const u8,
        rows: usize,
        bytes: usize,
    ) -> *const u8 {
        for row in staged.rows_mut().iter_mut().take(rows) {
            let to = row.as_mut_ptr();
            if bytes == LINE {
                prefetch(src.wrapping_add(PREFETCH_BYTES));
                // SAFETY: a whole row; the length is constant so that it stays in registers.
                unsafe { to.copy_from_nonoverlapping(src, LINE) };
            } else {
                // SAFETY: a part of a row.
                unsafe { to.copy_from_nonoverlapping(src, bytes) };
            }
            src = src.wrapping_offset(self.src_row);
        }
        src
    }

    /// Writes rows out.
    ///
    /// # Safety
    /// `rows` rows of `bytes` bytes are writable at `dst`; neither exceeds a strip.
    unsafe fn put(&self, strip: &Strip, mut dst: *mut u8, bytes: usize, rows: usize) {
        let lines = if self.streaming { bytes / LINE } else { 0 };
        let rest = bytes - lines * LINE;
        for row in strip.0.iter().take(rows) {
            let from = row.as_ptr().cast::<u8>();
            if lines > 0 {
                // SAFETY: whole lines of a row, at a line boundary.
                unsafe { stream_lines(dst, from, lines) };
            }
            if rest > 0 {
                let (to, from) = (
                    dst.wrapping_add(lines * LINE),
                    from.wrapping_add(lines * LINE),
                );
                // SAFETY: what is left of the row.
                unsafe { to.copy_from_nonoverlapping(from, rest) };
            }
            dst = dst.wrapping_offset(self.dst_row);
        }
    }
}

/// How far ahead in its row the source is fetched.
const PREFETCH_BYTES: usize = 2 * LINE;
