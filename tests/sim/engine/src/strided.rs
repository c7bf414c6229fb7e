//! Walks over strided elements: which bytes they are, and how they are copied.
#![expect(unsafe_code, reason = "moves bytes that others own")]

use crate::arena::{Arena, size};
use crate::{Error, Strided};

/// More runs than these are taken for everything between the first and the last byte, and races in
/// them are not looked for.
const MOST_RUNS: u64 = 1 << 16;

/// A strided copy with its numbers checked.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    element_bits: u64,
    shape: Vec<u64>,
    target: Side,
    source: Side,
}

/// Position of the first element and steps of each dimension, in bits.
#[derive(Clone, Debug)]
struct Side {
    first: i128,
    steps: Vec<i128>,
}

/// The bytes of one side.
#[derive(Debug)]
pub(crate) struct Bytes {
    /// That of the element with index 0 in every dimension.
    pub(crate) first: u64,
    /// First and last-but-one, in order, none touching the next.
    pub(crate) runs: Vec<(u64, u64)>,
    /// Whether the runs are exactly the bytes of the elements.
    pub(crate) exact: bool,
}

impl Walk {
    pub(crate) fn new(
        element_bits: u32,
        shape: &[u64],
        (target, source): (&Strided, &Strided),
    ) -> Result<Self, Error> {
        if element_bits == 0 {
            return Err(Error::Invalid {
                why: "elements of no bits cannot be copied".to_owned(),
            });
        }
        let elements = shape
            .iter()
            .try_fold(1_u64, |product, &extent| product.checked_mul(extent));
        if elements.is_none() {
            return Err(Error::Invalid {
                why: "the shape has more than 2^64 elements".to_owned(),
            });
        }
        let walk = Self {
            element_bits: u64::from(element_bits),
            shape: shape.to_vec(),
            target: Side::new(element_bits, shape, target)?,
            source: Side::new(element_bits, shape, source)?,
        };
        Ok(walk)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Bytes of all elements, for the time they take.
    pub(crate) fn volume(&self) -> u64 {
        self.shape
            .iter()
            .fold(self.element_bits, |n, &x| n.saturating_mul(x))
            .div_ceil(8)
    }

    /// Runs that lie side by side at both ends.
    pub(crate) fn rows(&self) -> u64 {
        let inner = self.dense(&self.target).min(self.dense(&self.source));
        let outer = self.shape.iter().rev().skip(inner);
        outer.fold(1, |n, &x| n.saturating_mul(x))
    }

    /// Where the first elements are: of the target and of the source.
    pub(crate) fn first(&self) -> (u64, u64) {
        let address = |side: &Side| u64::try_from(side.first / 8).unwrap_or(0);
        (address(&self.target), address(&self.source))
    }

    /// The bytes that are written and those that are read.
    pub(crate) fn sides(&self) -> Result<(Bytes, Bytes), Error> {
        Ok((self.bytes(&self.target)?, self.bytes(&self.source)?))
    }

    fn bytes(&self, side: &Side) -> Result<Bytes, Error> {
        let inner = self.dense(side);
        let outer = self
            .shape
            .get(..self.shape.len() - inner)
            .unwrap_or_default();
        let dense = self.shape.get(outer.len()..).unwrap_or_default();
        let bits = dense
            .iter()
            .fold(i128::from(self.element_bits), |n, &x| n * i128::from(x));
        let count = outer.iter().fold(1_u64, |n, &x| n.saturating_mul(x));
        let (first, _) = whole_bytes(side.first, side.first)?;
        let mut runs = Vec::new();
        if count > MOST_RUNS {
            let (low, high) = side.hull(&self.shape);
            runs.push(whole_bytes(low, high + i128::from(self.element_bits))?);
            return Ok(Bytes {
                first,
                runs,
                exact: false,
            });
        }
        let mut index = vec![0; outer.len()];
        loop {
            let at = side.at(&index);
            runs.push(whole_bytes(at, at + bits)?);
            if !advance(&mut index, outer) {
                break;
            }
        }
        runs.sort_unstable();
        runs.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1;
            kept.1 = if touches { kept.1.max(next.1) } else { kept.1 };
            touches
        });
        Ok(Bytes {
            first,
            runs,
            exact: true,
        })
    }

    /// How many of the last dimensions lie in memory without gaps.
    fn dense(&self, side: &Side) -> usize {
        let mut step = i128::from(self.element_bits);
        let mut dense = 0;
        for (&extent, &actual) in self.shape.iter().zip(&side.steps).rev() {
            if extent != 1 && actual != step {
                break;
            }
            step *= i128::from(extent);
            dense += 1;
        }
        dense
    }

    /// Copies all elements.
    ///
    /// # Safety
    ///
    /// The bytes of both sides are valid for reads, and those of the target for writes.
    pub(crate) unsafe fn run(&self, arena: &Arena) {
        if self.is_empty() {
            return;
        }
        let inner = self.dense(&self.target).min(self.dense(&self.source));
        let outer = self
            .shape
            .get(..self.shape.len() - inner)
            .unwrap_or_default();
        let dense = self.shape.get(outer.len()..).unwrap_or_default();
        let bits = dense.iter().fold(self.element_bits, |n, &x| n * x);
        let mut index = vec![0; outer.len()];
        loop {
            let (to, from) = (self.target.at(&index), self.source.at(&index));
            // SAFETY: both runs are bits of elements of this copy, which the caller vouches for.
            unsafe { copy_bits(arena, to, from, bits) };
            if !advance(&mut index, outer) {
                break;
            }
        }
    }
}

impl Side {
    fn new(element_bits: u32, shape: &[u64], from: &Strided) -> Result<Self, Error> {
        if from.strides.len() != shape.len() {
            let why = format!(
                "{} strides for {} dimensions",
                from.strides.len(),
                shape.len()
            );
            return Err(Error::Invalid { why });
        }
        let first = i128::from(from.address) * 8 + i128::from(from.bit_offset);
        let step = |&stride: &i64| i128::from(stride) * i128::from(element_bits);
        let steps: Vec<i128> = from.strides.iter().map(step).collect();
        // Every element lies in between, so that no sum below overflows once this one does not.
        let mut reach = first.checked_add(i128::from(element_bits));
        for (&extent, step) in shape.iter().zip(&steps) {
            let far = i128::from(extent).checked_mul(step.abs());
            reach = reach.and_then(|reach| reach.checked_add(far?));
        }
        if reach.is_none() {
            return Err(Error::Invalid {
                why: "the strides reach beyond all addresses".to_owned(),
            });
        }
        Ok(Self { first, steps })
    }

    fn at(&self, index: &[u64]) -> i128 {
        let steps = index.iter().zip(&self.steps);
        self.first + steps.map(|(&i, step)| i128::from(i) * step).sum::<i128>()
    }

    /// Positions of the lowest and the highest element.
    fn hull(&self, shape: &[u64]) -> (i128, i128) {
        let ends = shape
            .iter()
            .zip(&self.steps)
            .map(|(&x, step)| i128::from(x - 1) * step);
        ends.fold((self.first, self.first), |(low, high), end| {
            (low + end.min(0), high + end.max(0))
        })
    }
}

/// Goes to the next index, the last dimension first; false behind the last one.
fn advance(index: &mut [u64], shape: &[u64]) -> bool {
    for (at, &extent) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < extent {
            return true;
        }
        *at = 0;
    }
    false
}

fn whole_bytes(start: i128, end: i128) -> Result<(u64, u64), Error> {
    let convert = |bits: i128| {
        u64::try_from(bits).map_err(|_outside| Error::Invalid {
            why: "the elements reach beyond the addresses that exist".to_owned(),
        })
    };
    Ok((
        convert(start.div_euclid(8))?,
        convert((end + 7).div_euclid(8))?,
    ))
}

/// Copies bits, the lowest of a byte first.
///
/// # Safety
///
/// The bytes that hold them are valid, those of the target for writes.
unsafe fn copy_bits(arena: &Arena, to: i128, from: i128, bits: u64) {
    let byte = |at: i128| arena.view(u64::try_from(at.div_euclid(8)).unwrap_or(0));
    if (to | from).rem_euclid(8) == 0 && bits.is_multiple_of(8) {
        // SAFETY: the caller vouches for both runs; they may overlap.
        unsafe { byte(to).copy_from(byte(from), size(bits / 8)) };
        return;
    }
    for bit in 0..i128::from(bits) {
        let (to, from) = (to + bit, from + bit);
        // SAFETY: the caller vouches for the byte of each bit.
        let read = unsafe { byte(from).read() };
        // SAFETY: as above.
        let old = unsafe { byte(to).read() };
        let set = read >> from.rem_euclid(8) & 1 == 1;
        let mask = 1 << to.rem_euclid(8);
        // SAFETY: as above; the caller vouches for writes.
        unsafe { byte(to).write(if set { old | mask } else { old & !mask }) };
    }
}
