//! Numbers that look random and are the same in every run.

/// A generator with a seed (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from 0 up to and without `end`; 0 when `end` is 0.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        match self.next().checked_rem(end) {
            Some(number) => number,
            None => 0,
        }
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// Bytes that depend on `seed` only.
pub(crate) fn pattern(seed: u64, count: usize) -> Vec<u8> {
    Random::new(seed).bytes(count)
}
