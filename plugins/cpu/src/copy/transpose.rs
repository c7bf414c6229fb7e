//! Turns one tile round: element (row, column) becomes (column, row).
#![expect(
    clippy::indexing_slicing,
    reason = "every index is below the constant sides of a tile"
)]

use super::plan::{LINE, Width};
use super::tile::{Strip, Tile};

/// Writes a tile, turned round, into one line of each row of the strip.
pub(super) type Turn = fn(&Tile, &mut Strip, usize);

/// The fastest way this machine has.
pub(super) fn turn(width: Width) -> Turn {
    #[cfg(target_arch = "x86_64")]
    {
        let wide = std::arch::is_x86_feature_detected!("avx2");
        match width {
            Width::W1 => x86::turn1,
            Width::W2 => x86::turn2,
            Width::W4 if wide => x86::turn4,
            Width::W8 if wide => x86::turn8,
            Width::W4 => portable::<4>,
            Width::W8 => portable::<8>,
            Width::W16 => portable::<16>,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    match width {
        Width::W1 => portable::<1>,
        Width::W2 => portable::<2>,
        Width::W4 => portable::<4>,
        Width::W8 => portable::<8>,
        Width::W16 => portable::<16>,
    }
}

/// One element after the other.
fn portable<const E: usize>(tile: &Tile, strip: &mut Strip, at: usize) {
    let side = LINE / E;
    for (column, row) in strip.rows_mut().iter_mut().take(side).enumerate() {
        let Some(line) = row.get_mut(at) else { return };
        for (to, from) in line.chunks_exact_mut(E).zip(tile.rows()) {
            to.copy_from_slice(&from[column * E..(column + 1) * E]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "vector registers are reached through the tile's own bytes"
)]
#[expect(
    clippy::needless_range_loop,
    reason = "a square has two sides to walk along"
)]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpacklo_epi8,
        _mm_unpacklo_epi16, _mm256_permute2x128_si256, _mm256_unpackhi_epi32,
        _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    };

    use super::super::plan::PANEL_LINES;
    use super::{Strip, Tile};

    /// A tile as quarter lines.
    type Quarters = [[__m128i; 4]; 64];
    /// A strip as quarter lines.
    type StripQuarters = [[[__m128i; 4]; PANEL_LINES]; 64];
    /// A tile as half lines.
    type Halves = [[__m256i; 2]; 64];
    /// A strip as half lines.
    type StripHalves = [[[__m256i; 2]; PANEL_LINES]; 64];

    pub(super) fn turn1(tile: &Tile, strip: &mut Strip, at: usize) {
        // SAFETY: every x86-64 machine has SSE2.
        unsafe { turn1_sse2(tile, strip, at) };
    }

    #[target_feature(enable = "sse2")]
    fn turn1_sse2(tile: &Tile, strip: &mut Strip, at: usize) {
        let (from, to) = (quarters(tile), strip_quarters(strip));
        for (block_row, rows) in from.chunks_exact(16).enumerate() {
            for block_column in 0..4 {
                let mut square: [__m128i; 16] = std::array::from_fn(|k| rows[k][block_column]);
                turn_bytes(&mut square);
                for (k, turned) in square.into_iter().enumerate() {
                    to[block_column * 16 + k][at][block_row] = turned;
                }
            }
        }
    }

    /// Four rounds of interleaving row k with row k + 8 turn 16 by 16 bytes round.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn turn_bytes(square: &mut [__m128i; 16]) {
        for _ in 0..4 {
            let old = *square;
            for k in 0..8 {
                square[2 * k] = _mm_unpacklo_epi8(old[k], old[k + 8]);
                square[2 * k + 1] = _mm_unpackhi_epi8(old[k], old[k + 8]);
            }
        }
    }

    pub(super) fn turn2(tile: &Tile, strip: &mut Strip, at: usize) {
        // SAFETY: every x86-64 machine has SSE2.
        unsafe { turn2_sse2(tile, strip, at) };
    }

    #[target_feature(enable = "sse2")]
    fn turn2_sse2(tile: &Tile, strip: &mut Strip, at: usize) {
        let (from, to) = (quarters(tile), strip_quarters(strip));
        for (block_row, rows) in from.chunks_exact(8).take(4).enumerate() {
            for block_column in 0..4 {
                let mut square: [__m128i; 8] = std::array::from_fn(|k| rows[k][block_column]);
                turn_pairs(&mut square);
                for (k, turned) in square.into_iter().enumerate() {
                    to[block_column * 8 + k][at][block_row] = turned;
                }
            }
        }
    }

    /// Three rounds of interleaving row k with row k + 4 turn 8 by 8 pairs round.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn turn_pairs(square: &mut [__m128i; 8]) {
        for _ in 0..3 {
            let old = *square;
            for k in 0..4 {
                square[2 * k] = _mm_unpacklo_epi16(old[k], old[k + 4]);
                square[2 * k + 1] = _mm_unpackhi_epi16(old[k], old[k + 4]);
            }
        }
    }

    pub(super) fn turn4(tile: &Tile, strip: &mut Strip, at: usize) {
        // SAFETY: the only way here is `turn`, which found AVX2.
        unsafe { turn4_avx2(tile, strip, at) };
    }

    #[target_feature(enable = "avx2")]
    fn turn4_avx2(tile: &Tile, strip: &mut Strip, at: usize) {
        let (from, to) = (halves(tile), strip_halves(strip));
        for half in 0..2 {
            for group in 0..2 {
                let row = |k: usize| from[group * 8 + k][half];
                let a = quads(row(0), row(1), row(2), row(3));
                let b = quads(row(4), row(5), row(6), row(7));
                for k in 0..4 {
                    let low = _mm256_permute2x128_si256::<0x20>(a[k], b[k]);
                    let high = _mm256_permute2x128_si256::<0x31>(a[k], b[k]);
                    to[half * 8 + k][at][group] = low;
                    to[half * 8 + 4 + k][at][group] = high;
                }
            }
        }
    }

    /// Turns the two 4 by 4 squares in four rows round, each in its own half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn quads(r0: __m256i, r1: __m256i, r2: __m256i, r3: __m256i) -> [__m256i; 4] {
        let (low01, high01) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
        let (low23, high23) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
        [
            _mm256_unpacklo_epi64(low01, low23),
            _mm256_unpackhi_epi64(low01, low23),
            _mm256_unpacklo_epi64(high01, high23),
            _mm256_unpackhi_epi64(high01, high23),
        ]
    }

    pub(super) fn turn8(tile: &Tile, strip: &mut Strip, at: usize) {
        // SAFETY: the only way here is `turn`, which found AVX2.
        unsafe { turn8_avx2(tile, strip, at) };
    }

    #[target_feature(enable = "avx2")]
    fn turn8_avx2(tile: &Tile, strip: &mut Strip, at: usize) {
        let (from, to) = (halves(tile), strip_halves(strip));
        for half in 0..2 {
            for group in 0..2 {
                let row = |k: usize| from[group * 4 + k][half];
                let a0 = _mm256_unpacklo_epi64(row(0), row(1));
                let a1 = _mm256_unpackhi_epi64(row(0), row(1));
                let b0 = _mm256_unpacklo_epi64(row(2), row(3));
                let b1 = _mm256_unpackhi_epi64(row(2), row(3));
                let first = half * 4;
                to[first][at][group] = _mm256_permute2x128_si256::<0x20>(a0, b0);
                to[first + 1][at][group] = _mm256_permute2x128_si256::<0x20>(a1, b1);
                to[first + 2][at][group] = _mm256_permute2x128_si256::<0x31>(a0, b0);
                to[first + 3][at][group] = _mm256_permute2x128_si256::<0x31>(a1, b1);
            }
        }
    }

    fn quarters(tile: &Tile) -> &Quarters {
        // SAFETY: a tile is 64 lines of 64 bytes, aligned to 64: as large as `Quarters` and
        // aligned at least as much; any bytes are a vector.
        unsafe { &*(&raw const *tile).cast() }
    }

    fn strip_quarters(strip: &mut Strip) -> &mut StripQuarters {
        // SAFETY: as `quarters`; the borrow of the strip is passed on.
        unsafe { &mut *(&raw mut *strip).cast() }
    }

    fn halves(tile: &Tile) -> &Halves {
        // SAFETY: as `quarters`; a half line asks for an alignment of 32.
        unsafe { &*(&raw const *tile).cast() }
    }

    fn strip_halves(strip: &mut Strip) -> &mut StripHalves {
        // SAFETY: as `halves`; the borrow of the strip is passed on.
        unsafe { &mut *(&raw mut *strip).cast() }
    }
}
