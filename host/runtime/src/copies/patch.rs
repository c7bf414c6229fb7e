//! Read-modify-write of a run of bytes: new values for some of their bits, the others stay.
#![expect(unsafe_code, reason = "copies bits between slices")]

use crate::copies::host_bytes::{grow, zeroed};
use crate::copies::walk;
use crate::error::Error;
use crate::hooks::panics::lend;

/// New values for some bits of neighbouring bytes.
#[derive(Debug, Default)]
pub(crate) struct Patch {
    /// The first byte.
    start: i64,
    bytes: Vec<u8>,
    /// Which bits of them are new.
    new: Vec<u8>,
}

impl Patch {
    /// Whether `length` bits from `first` on belong to the run, or to its end.
    pub(crate) fn takes(&self, first: i64, length: i64) -> bool {
        let end = self.start + self.count();
        let (from, to) = bytes_of(first, length);
        self.bytes.is_empty() || (from >= self.start && from <= end && to >= end)
    }

    /// Adds bits that it takes: those of `bytes` from bit `at` on.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    pub(crate) fn add(
        &mut self,
        first: i64,
        length: i64,
        (bytes, at): (&[u8], i64),
    ) -> Result<(), Error> {
        let (from, to) = bytes_of(first, length);
        if self.bytes.is_empty() {
            self.start = from;
        }
        let count = usize::try_from(to - self.start).unwrap_or(0);
        grow(&mut self.bytes, count)?;
        grow(&mut self.new, count)?;
        let inside = first - self.start * 8;
        set(&mut self.new, inside, length);
        let target = (self.bytes.as_mut_ptr(), inside);
        // SAFETY: the run was made long enough just now, and the caller gives so many bits.
        unsafe { walk::copy_bits(length, target, (bytes.as_ptr(), at)) };
        Ok(())
    }

    /// Fills in the bits that are not new; `read` reads the bytes from one on.
    pub(crate) fn complete(
        &mut self,
        mut read: impl FnMut(i64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut at = self.start;
        let is_like = |one: &u8, other: &u8| (*one == u8::MAX) == (*other == u8::MAX);
        let mut bytes = self.bytes.as_mut_slice();
        for new in self.new.chunk_by(is_like) {
            let (part, rest) = bytes.split_at_mut(new.len());
            bytes = rest;
            if new.first() != Some(&u8::MAX) {
                let (old, ()) = lend(zeroed(new.len())?, |old| read(at, old))?;
                for ((byte, new), old) in part.iter_mut().zip(new).zip(old) {
                    *byte = (*byte & new) | (old & !new);
                }
            }
            at += i64::try_from(new.len()).unwrap_or(0);
        }
        Ok(())
    }

    /// The first byte and all of them; the patch is empty again.
    pub(crate) fn take(&mut self) -> (i64, Vec<u8>) {
        self.new.clear();
        (self.start, std::mem::take(&mut self.bytes))
    }

    fn count(&self) -> i64 {
        i64::try_from(self.bytes.len()).unwrap_or(i64::MAX)
    }
}

/// The bytes that have one of these bits.
fn bytes_of(first: i64, length: i64) -> (i64, i64) {
    let end = first + length;
    (first.div_euclid(8), (end + 7).div_euclid(8))
}

/// Sets `length` bits from `first` on.
fn set(bytes: &mut [u8], first: i64, length: i64) {
    let (from, to) = bytes_of(first, length);
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0);
    let inside = bytes.get_mut(range).unwrap_or_default();
    for (byte, at) in inside.iter_mut().zip(from..) {
        let low = (first - at * 8).clamp(0, 8);
        let high = (first + length - at * 8).clamp(0, 8);
        let [ones, ..] = ((1_u16 << high) - (1_u16 << low)).to_le_bytes();
        *byte |= ones;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: i64, length: i64) -> Patch {
        let mut patch = Patch::default();
        patch.add(first, length, (&[0xff; 8], 0)).unwrap();
        patch
    }

    #[test]
    fn a_run_takes_what_begins_in_it_or_at_its_end_and_reaches_its_end() {
        // Bytes 2 to 4.
        let patch = of(20, 18);
        let is_taken = |first| [1, 8, 16].map(|length| patch.takes(first, length));
        assert_eq!(is_taken(8), [false; 3]);
        assert!(!patch.takes(8, 32), "begins before it");
        assert_eq!(is_taken(24), [false, false, true]);
        assert_eq!(is_taken(32), [true; 3]);
        assert_eq!(is_taken(38), [true; 3]);
        assert_eq!(is_taken(40), [true; 3], "at its end");
        assert_eq!(is_taken(48), [false; 3], "behind a gap");
        let mut empty = patch;
        empty.take();
        assert!(empty.takes(0, 1) && empty.takes(800, 9));
    }

    /// Writes the patch into `memory`, and names the runs that it read first.
    fn flush(patch: &mut Patch, memory: &mut [u8]) -> Vec<(i64, usize)> {
        let mut reads = Vec::new();
        let at = |byte: i64| usize::try_from(byte).unwrap();
        patch
            .complete(|byte, old| {
                reads.push((byte, old.len()));
                old.copy_from_slice(&memory[at(byte)..][..old.len()]);
                Ok(())
            })
            .unwrap();
        let (byte, bytes) = patch.take();
        memory[at(byte)..][..bytes.len()].copy_from_slice(&bytes);
        reads
    }

    #[test]
    fn only_bytes_that_are_new_in_part_are_read_and_keep_their_other_bits() {
        let mut memory = [0b0101_0101; 8];
        let mut patch = of(20, 24);
        assert_eq!(flush(&mut patch, &mut memory), [(2, 1), (5, 1)]);
        let old = 0b0101_0101;
        let expected = [old, old, 0xf5, 0xff, 0xff, 0x5f, old, old];
        assert_eq!(memory, expected);
        // The next run is not mistaken for new where that one was.
        patch.add(9, 2, (&[0], 3)).unwrap();
        patch.add(12, 1, (&[0xff], 7)).unwrap();
        patch.add(25, 1, (&[0], 0)).unwrap();
        assert_eq!(flush(&mut patch, &mut memory), [(1, 3)]);
        assert_eq!(memory, [old, 0b0101_0001, 0xf5, 0xfd, 0xff, 0x5f, old, old]);
    }

    #[test]
    fn whole_bytes_are_read_from_any_bit_and_nothing_is_read_first() {
        let mut memory = [0; 6];
        let mut patch = Patch::default();
        patch.add(8, 16, (&[0x21, 0x43, 0x65], 4)).unwrap();
        patch.add(24, 8, (&[0x87], 0)).unwrap();
        assert_eq!(flush(&mut patch, &mut memory), []);
        assert_eq!(memory, [0, 0x32, 0x54, 0x87, 0, 0]);
    }
}
