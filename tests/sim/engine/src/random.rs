//! The generator behind every choice of the engine (splitmix64).

/// A sequence of numbers that its seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    at: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, at: seed }
    }

    /// The seed that it began with.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.at = self.at.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.at;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 where there is none.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let count = u64::try_from(from.len()).unwrap_or(u64::MAX);
        let at = usize::try_from(self.below(count)).unwrap_or(0);
        from.get(at).copied()
    }
}
