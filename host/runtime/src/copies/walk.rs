//! Strided copies between host memories: any layout and any width of elements, without a plugin.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

/// Where the elements of one side are.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a, P> {
    /// A byte in their memory.
    pub(crate) base: P,
    /// Bits from there to the element with index 0 in every dimension.
    pub(crate) first: i64,
    /// In elements, one an axis.
    pub(crate) strides: &'a [i64],
}

/// Copies elements of `bits` bits, one for each index of `shape`. Bits between those of packed
/// elements stay as they are.
///
/// # Safety
/// - Every byte that holds a bit of an element is readable at `src`, and both at `dst`; the two are
///   apart, and no other thread writes either of them.
pub(crate) unsafe fn copy(
    bits: u32,
    shape: &[i64],
    dst: Places<'_, *mut u8>,
    src: Places<'_, *const u8>,
) {
    if shape.contains(&0) {
        return;
    }
    let bits = i64::from(bits);
    let (rows, extent) = shape
        .split_last()
        .map_or((shape, 1), |(extent, rows)| (rows, *extent));
    // The stride of a single element is never walked, so it may be anything.
    let walked = |strides: &[i64]| strides.get(rows.len()).copied().filter(|_| extent > 1);
    let step = |strides| walked(strides).map_or(0, |stride| stride * bits);
    let (dst_step, src_step) = (step(dst.strides), step(src.strides));
    let is_dense = bits % 8 == 0 && (extent == 1 || (dst_step, src_step) == (bits, bits));
    let mut index = vec![0; rows.len()];
    loop {
        let (to, from) = (dst.bit_of(&index, bits), src.bit_of(&index, bits));
        if is_dense {
            // SAFETY: the elements of this row follow each other on both sides, which the caller
            // vouches for.
            unsafe { copy_bytes((dst.base, to), (src.base, from), extent * bits / 8) };
        } else {
            for at in 0..extent {
                let (to, from) = (to + at * dst_step, from + at * src_step);
                // SAFETY: one element of those that the caller vouches for.
                unsafe { copy_bits(bits, (dst.base, to), (src.base, from)) };
            }
        }
        if !advance(&mut index, rows) {
            return;
        }
    }
}

/// Copies `count` bits from one place to another, neither of which need begin at a byte.
///
/// # Safety
/// As [`copy`].
pub(crate) unsafe fn copy_bits(count: i64, dst: (*mut u8, i64), src: (*const u8, i64)) {
    let mut done = 0;
    if (dst.1 | src.1) % 8 == 0 {
        // SAFETY: whole bytes of the caller's.
        unsafe { copy_bytes(dst, src, count / 8) };
        done = count - count % 8;
    }
    while done < count {
        let (to, from) = (dst.1 + done, src.1 + done);
        // As many as lie in one byte on both sides.
        let room = 8 - to.rem_euclid(8).max(from.rem_euclid(8));
        let step = room.min(count - done);
        // SAFETY: these are bits of the caller's.
        unsafe { copy_within_byte(step, (dst.0, to), (src.0, from)) };
        done += step;
    }
}

impl<P> Places<'_, P> {
    /// Bits from the base to the first element of a row. Memory that is there has far fewer than 64
    /// bits of them.
    fn bit_of(&self, index: &[i64], bits: i64) -> i64 {
        let steps = index.iter().zip(self.strides);
        self.first + steps.map(|(at, stride)| at * stride).sum::<i64>() * bits
    }
}

/// The next index, the last axis running fastest; whether there is one.
fn advance(index: &mut [i64], shape: &[i64]) -> bool {
    for (at, extent) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *extent {
            return true;
        }
        *at = 0;
    }
    false
}

/// # Safety
/// As [`copy`].
unsafe fn copy_bytes(dst: (*mut u8, i64), src: (*const u8, i64), bytes: i64) {
    let to = dst.0.wrapping_offset(distance(dst.1));
    let from = src.0.wrapping_offset(distance(src.1));
    let count = usize::try_from(bytes).unwrap_or(0);
    // SAFETY: the caller vouches for these bytes, and that both sides are apart.
    unsafe { to.copy_from_nonoverlapping(from, count) };
}

/// # Safety
/// As [`copy`]; the bits lie in one byte on either side.
unsafe fn copy_within_byte(count: i64, dst: (*mut u8, i64), src: (*const u8, i64)) {
    let at = dst.0.wrapping_offset(distance(dst.1));
    let from = src.0.wrapping_offset(distance(src.1));
    // SAFETY: the caller promises that this byte is readable.
    let taken = u32::from(unsafe { from.read() }) >> src.1.rem_euclid(8);
    // SAFETY: the caller promises that this byte is readable.
    let old = u32::from(unsafe { at.read() });
    let shift = dst.1.rem_euclid(8);
    let mask = ((1_u32 << count) - 1) << shift;
    let [new, ..] = ((old & !mask) | ((taken << shift) & mask)).to_le_bytes();
    // SAFETY: the caller promises that this byte is writable.
    unsafe { at.write(new) };
}

/// Whole bytes before a bit.
fn distance(bit: i64) -> isize {
    isize::try_from(bit.div_euclid(8)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes on either side of a base, so that bits before it are there too.
    const MIDDLE: usize = 64;

    /// Bytes of which no two that are near are alike.
    fn noise(seed: u8) -> Vec<u8> {
        let next = |byte: &u8| Some(byte.wrapping_mul(73).wrapping_add(29));
        std::iter::successors(Some(seed), next)
            .take(4 * MIDDLE)
            .collect()
    }

    fn bit_at(at: i64) -> (usize, u8) {
        let byte = MIDDLE.wrapping_add_signed(distance(at));
        (byte, 1 << at.rem_euclid(8))
    }

    /// What [`copy_bits`] is to do, bit by bit.
    fn copied(count: i64, dst: (&mut [u8], i64), src: (&[u8], i64)) {
        for bit in 0..count {
            let (to, mask) = bit_at(dst.1 + bit);
            let (from, given) = bit_at(src.1 + bit);
            dst.0[to] &= !mask;
            if src.0[from] & given != 0 {
                dst.0[to] |= mask;
            }
        }
    }

    fn bases(dst: &mut [u8], src: &[u8]) -> (*mut u8, *const u8) {
        (dst[MIDDLE..].as_mut_ptr(), src[MIDDLE..].as_ptr())
    }

    #[test]
    fn bits_go_from_any_bit_to_any_other_and_those_beside_them_stay() {
        let given = noise(1);
        for count in 0..27 {
            for (to, from) in (-9..9).flat_map(|to| (-9..9).map(move |from| (to, from))) {
                let (mut written, mut expected) = (noise(2), noise(2));
                copied(count, (&mut expected, to), (&given, from));
                let (dst, src) = bases(&mut written, &given);
                // SAFETY: the bits are near the middle of the bytes.
                unsafe { copy_bits(count, (dst, to), (src, from)) };
                assert!(written == expected, "{count} bits from {from} to {to}");
            }
        }
    }

    /// A shape and the strides of both sides.
    type Case<'a> = (&'a [i64], &'a [i64], &'a [i64]);

    const CASES: [Case<'_>; 12] = [
        (&[], &[], &[]),
        (&[0], &[1], &[1]),
        (&[0, 3], &[3, 1], &[3, 1]),
        // The strides of single elements and of nothing are never walked.
        (&[1], &[i64::MAX], &[i64::MIN]),
        (&[5], &[1], &[1]),
        (&[5], &[2], &[1]),
        (&[5], &[1], &[3]),
        (&[5], &[-1], &[1]),
        (&[3, 1], &[1, 9], &[2, 0]),
        (&[4, 3], &[5, 1], &[4, 1]),
        (&[2, 3, 2], &[1, 2, 6], &[6, 2, 1]),
        (&[2, 3, 2], &[6, -2, 1], &[-7, 2, 1]),
    ];

    /// The indexes of a shape, the last axis running fastest.
    fn indexes(shape: &[i64]) -> Vec<Vec<i64>> {
        shape.iter().fold(vec![Vec::new()], |before, extent| {
            let with = |index: Vec<i64>| {
                (0..*extent).map(move |at| index.iter().copied().chain([at]).collect())
            };
            before.into_iter().flat_map(with).collect()
        })
    }

    fn place(index: &[i64], strides: &[i64]) -> i64 {
        let steps = index.iter().zip(strides).map(|(at, stride)| at * stride);
        steps.sum()
    }

    #[test]
    fn elements_of_any_width_go_where_their_strides_say_and_all_between_them_stays() {
        let given = noise(3);
        for (shape, to, from) in CASES {
            for (bits, first) in [1_u32, 2, 4, 6, 8, 16, 24].map(|bits| (bits, i64::from(bits))) {
                let firsts = (first + 8 * i64::from(bits % 8 == 0), 3 * first);
                let (mut written, mut expected) = (noise(4), noise(4));
                for index in indexes(shape) {
                    let to = firsts.0 + place(&index, to) * i64::from(bits);
                    let from = firsts.1 + place(&index, from) * i64::from(bits);
                    copied(i64::from(bits), (&mut expected, to), (&given, from));
                }
                let (dst, src) = bases(&mut written, &given);
                let dst = Places {
                    base: dst,
                    first: firsts.0,
                    strides: to,
                };
                let src = Places {
                    base: src,
                    first: firsts.1,
                    strides: from,
                };
                // SAFETY: the elements are near the middle of the bytes.
                unsafe { copy(bits, shape, dst, src) };
                assert!(
                    written == expected,
                    "{bits} bits, {shape:?}, {to:?}, {from:?}"
                );
            }
        }
    }
}
