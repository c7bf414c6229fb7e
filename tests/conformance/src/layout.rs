//! Strided regions and the slow model that says what a copy of one has to do.

use std::fmt;

use crate::random::Random;

/// A strided region: arrays of equal length, strides in elements.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) element_bits: u32,
    pub(crate) shape: Vec<i64>,
    pub(crate) dst_strides: Vec<i64>,
    pub(crate) src_strides: Vec<i64>,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shape {:?} with elements of {} bits, strides {:?} to {:?}",
            self.shape, self.element_bits, self.src_strides, self.dst_strides
        )
    }
}

/// Which sorts of strides a generated region may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) ranks: (u64, u64),
    pub(crate) permuted: bool,
    pub(crate) padded: bool,
    pub(crate) negative: bool,
    pub(crate) broadcast: bool,
}

/// Bytes before and from the first element on.
pub(crate) type Reach = (u64, u64);

impl Region {
    /// A region that depends on the generator only. No two elements of the destination overlap.
    pub(crate) fn random(random: &mut Random, choice: Choice, element_bits: u32) -> Self {
        let (low, high) = choice.ranks;
        let rank = low + random.below(high - low + 1);
        let shape: Vec<i64> = (0..rank).map(|_| small(random, 4) + 1).collect();
        let dst_strides = strides(random, choice, &shape);
        let mut src_strides = strides(random, choice, &shape);
        if choice.broadcast
            && let Some(stride) = src_strides.first_mut()
        {
            *stride = 0;
        }
        Self {
            element_bits,
            shape,
            dst_strides,
            src_strides,
        }
    }

    /// The reach of the destination and of the source.
    pub(crate) fn reach(&self) -> (Reach, Reach) {
        (
            self.reach_of(&self.dst_strides),
            self.reach_of(&self.src_strides),
        )
    }

    fn reach_of(&self, strides: &[i64]) -> Reach {
        let (mut low, mut high) = (0_i64, 1_i64);
        for (extent, stride) in self.shape.iter().zip(strides) {
            let walk = (extent - 1) * stride;
            low += walk.min(0);
            high += walk.max(0);
        }
        let bytes =
            |elements: i64| (elements.unsigned_abs() * u64::from(self.element_bits)).div_ceil(8);
        (bytes(low), bytes(high))
    }

    /// Does the copy element by element and bit by bit, low bits first.
    pub(crate) fn model(&self, dst: (&mut [u8], u64), src: (&[u8], u64)) {
        let (dst, dst_start) = dst;
        let (src, src_start) = src;
        let mut index = vec![0_i64; self.shape.len()];
        loop {
            let to = bit_of(dst_start, &index, &self.dst_strides, self.element_bits);
            let from = bit_of(src_start, &index, &self.src_strides, self.element_bits);
            for bit in 0..u64::from(self.element_bits) {
                set_bit(dst, to + bit, get_bit(src, from + bit));
            }
            if !advance(&mut index, &self.shape) {
                return;
            }
        }
    }
}

impl Choice {
    /// Compact rows with room between them.
    pub(crate) const PITCHED: Self = Self {
        ranks: (2, 3),
        permuted: false,
        padded: true,
        negative: false,
        broadcast: false,
    };
    /// Axes in any order, with room between them.
    pub(crate) const PERMUTED: Self = Self {
        ranks: (1, 5),
        permuted: true,
        ..Self::PITCHED
    };
    /// The same, walked backwards here and there.
    pub(crate) const NEGATIVE: Self = Self {
        negative: true,
        ..Self::PERMUTED
    };
    /// The same forwards, from a source that repeats along its first axis.
    pub(crate) const BROADCAST: Self = Self {
        broadcast: true,
        ..Self::PERMUTED
    };
    /// Many dimensions.
    pub(crate) const DEEP: Self = Self {
        ranks: (6, 7),
        ..Self::PERMUTED
    };
}

fn small(random: &mut Random, end: u64) -> i64 {
    i64::try_from(random.below(end)).unwrap_or(0)
}

/// Strides that walk every element once, the last axis fastest unless permuted.
fn strides(random: &mut Random, choice: Choice, shape: &[i64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..shape.len()).rev().collect();
    if choice.permuted {
        order.sort_by_cached_key(|_| random.next());
    }
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for axis in order {
        let extent = shape.get(axis).copied().unwrap_or(1);
        let backwards = choice.negative && random.below(3) == 0;
        if let Some(stride) = strides.get_mut(axis) {
            *stride = if backwards { -step } else { step };
        }
        step *= extent;
        if choice.padded {
            step += small(random, 3);
        }
    }
    strides
}

fn bit_of(start: u64, index: &[i64], strides: &[i64], element_bits: u32) -> u64 {
    let elements: i64 = index
        .iter()
        .zip(strides)
        .map(|(index, stride)| index * stride)
        .sum();
    (start * 8).saturating_add_signed(elements * i64::from(element_bits))
}

fn get_bit(bytes: &[u8], bit: u64) -> bool {
    let byte = usize::try_from(bit / 8)
        .ok()
        .and_then(|byte| bytes.get(byte));
    byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

fn set_bit(bytes: &mut [u8], bit: u64, value: bool) {
    let byte = usize::try_from(bit / 8)
        .ok()
        .and_then(|byte| bytes.get_mut(byte));
    if let Some(byte) = byte {
        let mask = 1_u8 << (bit % 8);
        *byte = if value { *byte | mask } else { *byte & !mask };
    }
}

fn advance(index: &mut [i64], shape: &[i64]) -> bool {
    for (place, extent) in index.iter_mut().zip(shape).rev() {
        *place += 1;
        if place < &mut extent.clone() {
            return true;
        }
        *place = 0;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_transposes_a_small_matrix() {
        let region = Region {
            element_bits: 8,
            shape: vec![2, 3],
            dst_strides: vec![1, 2],
            src_strides: vec![3, 1],
        };
        let mut dst = [0; 6];
        region.model((&mut dst, 0), (&[1, 2, 3, 4, 5, 6], 0));
        assert_eq!(dst, [1, 4, 2, 5, 3, 6]);
        assert_eq!(region.reach(), ((0, 6), (0, 6)));
    }

    #[test]
    fn the_model_walks_backwards_and_packs_nibbles() {
        let region = Region {
            element_bits: 4,
            shape: vec![4],
            dst_strides: vec![1],
            src_strides: vec![-1],
        };
        let mut dst = [0; 2];
        // The first element read is the one at byte 2, the low nibble of 0x05.
        region.model((&mut dst, 0), (&[0x21, 0x43, 0x05], 2));
        assert_eq!(dst, [0x45, 0x23]);
    }
}
