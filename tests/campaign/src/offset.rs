//! Where lent memory begins: not every lender's begins where an element of the tensor is aligned.

use serde::{Deserialize, Serialize};

use crate::generate::Random;

/// Bytes from the beginning of the owner's memory to the tensor's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "kinds write its fields")]
pub struct Offset {
    /// To where the pointer points.
    pub pointer: u8,
    /// From there on: DLPack's `byte_offset`.
    pub dlpack: u8,
}

impl Offset {
    /// None in every third draw, else up to three bytes by the one or the other, or by both.
    pub(crate) fn drawn(random: &mut Random) -> Self {
        if random.once_in(3) {
            return Self::default();
        }
        let some = 1 + random.below(3) as u8;
        match random.below(3) {
            0 => Self {
                pointer: some,
                dlpack: 0,
            },
            1 => Self {
                pointer: 0,
                dlpack: some,
            },
            _ => Self {
                pointer: some,
                dlpack: random.below(8) as u8,
            },
        }
    }

    /// One for each seed of a tensor's bytes: so programs of a seed are otherwise what they are without offsets.
    pub(crate) fn of_seed(seed: u8) -> Self {
        Self::drawn(&mut Random::new(u64::from(seed)))
    }

    /// Of both.
    pub(crate) const fn bytes(self) -> usize {
        self.pointer as usize + self.dlpack as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rest_by_four_is_drawn_of_the_pointer_and_of_dlpack_and_often_none() {
        let mut random = Random::new(1);
        let drawn: Vec<Offset> = (0..200).map(|_| Offset::drawn(&mut random)).collect();
        let count = |is_meant: &dyn Fn(&Offset) -> bool| {
            drawn.iter().filter(|offset| is_meant(offset)).count()
        };
        for rest in 0..4 {
            assert!(count(&|offset| offset.bytes() % 4 == rest) >= 10);
            assert!(count(&|offset| offset.pointer == rest as u8 && offset.dlpack == 0) >= 5);
            assert!(count(&|offset| offset.dlpack == rest as u8 && offset.pointer == 0) >= 5);
        }
        assert!(count(&|offset| offset.bytes() == 0) >= 50);
    }
}
