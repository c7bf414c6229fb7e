//! The arrays of a strided copy, read.
#![expect(unsafe_code, reason = "reads arrays that a caller vouches for")]

use super::StridedArgs;

impl StridedArgs {
    /// The shape, the strides of `dst` and the strides of `src`: as many numbers each as the rank says. `None` where
    /// one of them is missing.
    ///
    /// # Safety
    /// - An array that is not null has `rank` numbers, which live as long as the answer is used.
    #[must_use]
    pub unsafe fn arrays<'a>(&self) -> Option<[&'a [i64]; 3]> {
        let rank = usize::try_from(self.rank).ok()?;
        let arrays = [self.shape, self.dst_strides, self.src_strides];
        if arrays.iter().any(|array| array.is_null()) {
            return None;
        }
        // SAFETY: not null, and the caller vouches for the numbers.
        Some(arrays.map(|array| unsafe { core::slice::from_raw_parts(array, rank) }))
    }
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::abi::Side;

    #[test]
    fn arrays_are_as_long_as_the_rank_and_all_there_or_none() {
        let (shape, dst, src) = ([2, 3], [3, 1], [8, 2]);
        let args = StridedArgs {
            dst: Side::default(),
            src: Side::default(),
            element_bits: 8,
            rank: 2,
            shape: shape.as_ptr(),
            dst_strides: dst.as_ptr(),
            src_strides: src.as_ptr(),
        };
        // SAFETY: each has two numbers, which live here.
        let read = unsafe { args.arrays() };
        assert_eq!(read, Some([&shape[..], &dst[..], &src[..]]));
        let null = ptr::null();
        for lacking in [
            StridedArgs {
                shape: null,
                ..args
            },
            StridedArgs {
                dst_strides: null,
                ..args
            },
            StridedArgs {
                src_strides: null,
                ..args
            },
        ] {
            // SAFETY: as above, but for the one that is null.
            assert_eq!(unsafe { lacking.arrays() }, None);
        }
    }
}
