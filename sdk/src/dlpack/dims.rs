//! Storage for shape and strides that needs no allocation up to eight dimensions.

use std::sync::Arc;
use std::{fmt, iter};

const INLINE: usize = 8;

/// Extents and strides of the same number of axes.
#[derive(Clone)]
pub(super) struct Dims {
    rank: usize,
    storage: Storage,
}

#[derive(Clone)]
enum Storage {
    Inline([i64; INLINE], [i64; INLINE]),
    /// Shape, then strides; shared, so that a clone allocates nothing.
    Heap(Arc<[i64]>),
}

impl Dims {
    /// `rank` axes, all zero.
    #[inline]
    pub(super) fn zeroed(rank: usize) -> Self {
        let storage = if rank <= INLINE {
            Storage::Inline([0; INLINE], [0; INLINE])
        } else {
            Storage::Heap(iter::repeat_n(0, 2 * rank).collect())
        };
        Self { rank, storage }
    }

    #[inline]
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    pub(super) fn shape(&self) -> &[i64] {
        let all: &[i64] = match &self.storage {
            Storage::Inline(shape, _) => shape,
            Storage::Heap(numbers) => numbers.split_at(self.rank).0,
        };
        all.get(..self.rank).unwrap_or(all)
    }

    #[inline]
    pub(super) fn strides(&self) -> &[i64] {
        let all: &[i64] = match &self.storage {
            Storage::Inline(_, strides) => strides,
            Storage::Heap(numbers) => numbers.split_at(self.rank).1,
        };
        all.get(..self.rank).unwrap_or(all)
    }

    #[inline]
    pub(super) fn shape_mut(&mut self) -> &mut [i64] {
        self.parts_mut().0
    }

    #[inline]
    pub(super) fn strides_mut(&mut self) -> &mut [i64] {
        self.parts_mut().1
    }

    /// Shape and strides, both of the same length.
    #[inline]
    pub(super) fn parts_mut(&mut self) -> (&mut [i64], &mut [i64]) {
        let rank = self.rank;
        match &mut self.storage {
            Storage::Inline(shape, strides) => {
                let used = rank.min(INLINE);
                (shape.split_at_mut(used).0, strides.split_at_mut(used).0)
            }
            Storage::Heap(numbers) => Arc::make_mut(numbers).split_at_mut(rank),
        }
    }

    /// Extent and stride of every axis.
    #[inline]
    pub(super) fn axes(
        &self,
    ) -> impl DoubleEndedIterator<Item = (i64, i64)> + ExactSizeIterator + '_ {
        self.shape()
            .iter()
            .copied()
            .zip(self.strides().iter().copied())
    }

    /// Gives every axis the stride of compact row-major order.
    #[inline]
    pub(super) fn make_compact(&mut self) {
        let (shape, strides) = self.parts_mut();
        let mut next = 1_i64;
        for (extent, stride) in shape.iter().zip(strides).rev() {
            *stride = next;
            // Only a tensor without elements can saturate: otherwise the product is a divisor of their number.
            next = next.saturating_mul((*extent).max(1));
        }
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.strides() == other.strides()
    }
}

impl Eq for Dims {}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shape {:?} strides {:?}", self.shape(), self.strides())
    }
}
