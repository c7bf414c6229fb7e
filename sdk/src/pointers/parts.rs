//! Ranges of addresses cut at the multiples of a power of two.

/// A part of a range that lies in one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Whether it fills the block.
    pub(super) whole: bool,
}

impl Part {
    /// All addresses of a range, of which none is cut off.
    pub(super) const fn all(first: u64, last: u64) -> Self {
        let whole = first == 0 && last == u64::MAX;
        Self { first, last, whole }
    }
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

/// The number of an address's block of `1 << shift` bytes among the `1 << bits` of its node.
#[inline(always)]
pub(super) fn index(address: u64, shift: u32, bits: u32) -> usize {
    usize::try_from(address >> shift & ((1 << bits) - 1)).unwrap_or(usize::MAX)
}
