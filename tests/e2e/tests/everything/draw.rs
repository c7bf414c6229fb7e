//! What a seed draws: numbers that look random, the same each time.

/// The seed of this process, which the simulator has too.
pub(super) fn seed() -> u64 {
    let words = std::env::var("CROSSDOCK_SIM").unwrap();
    let seed = words.split(';').find_map(|word| word.strip_prefix("seed="));
    seed.unwrap().parse().unwrap()
}

/// A generator of numbers, `SplitMix64`.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below this one.
    pub(super) fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    pub(super) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = i64::try_from(of.len()).unwrap();
        &of[usize::try_from(self.below(count)).unwrap()]
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        let mut bytes: Vec<u8> = words.collect();
        bytes.truncate(count);
        bytes
    }
}
