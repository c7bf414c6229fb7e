//! What happened in an engine, in order, as one number.

/// The calls and the starts of operations so far. Two runs with equal ones did the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace(u64);

impl Trace {
    /// Notes what happened, and to what.
    pub(crate) fn note(&mut self, what: &str, numbers: [u64; 2]) {
        for byte in what.bytes().map(u64::from).chain(numbers) {
            self.0 = (self.0 ^ byte)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}
