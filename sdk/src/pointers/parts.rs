//! Ranges of addresses cut at the multiples of a power of two.

/// A part of a range that lies in one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Whether it fills the block.
    pub(super) whole: bool,
}

/// Cuts a range at the multiples of `1 << shift`.
pub(super) fn parts(shift: u32, first: u64, last: u64) -> impl Iterator<Item = Part> {
    let below = (1_u64 << shift) - 1;
    (first >> shift..=last >> shift).map(move |block| {
        let (start, end) = (block << shift, block << shift | below);
        Part {
            first: first.max(start),
            last: last.min(end),
            whole: first <= start && last >= end,
        }
    })
}

/// The number of an address's block among the [`FAN`] of its node.
#[inline]
pub(super) fn index(address: u64, shift: u32) -> usize {
    usize::try_from(address >> shift).unwrap_or(0) & (FAN - 1)
}

/// Blocks of a node, and pages of a leaf.
pub(super) const FAN: usize = 4096;
