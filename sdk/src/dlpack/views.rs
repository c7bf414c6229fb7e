//! Views of a layout that move no element: other axes, a part, another shape.

use super::dims::Dims;
use super::error::DlpackError;
use super::strided::{Layout, count};

/// Which indexes of one axis a slice takes: `len` of them from `start` on, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers write its fields")]
pub struct AxisSlice {
    /// The first index.
    pub start: i64,
    /// From one index to the next; may be negative, not zero.
    pub step: i64,
    /// How many indexes.
    pub len: i64,
}

impl AxisSlice {
    /// Every index of an axis.
    #[must_use]
    pub const fn all(extent: i64) -> Self {
        Self {
            start: 0,
            step: 1,
            len: extent,
        }
    }

    /// Every index of an axis, backwards.
    #[must_use]
    pub const fn reversed(extent: i64) -> Self {
        Self {
            start: if extent > 0 { extent - 1 } else { 0 },
            step: -1,
            len: extent,
        }
    }

    fn is_inside(self, extent: i64) -> bool {
        if self.step == 0 || self.len < 0 {
            return false;
        }
        if self.len == 0 {
            return (0..=extent).contains(&self.start);
        }
        let last = i128::from(self.start) + i128::from(self.step) * i128::from(self.len - 1);
        (0..extent).contains(&self.start) && (0..i128::from(extent)).contains(&last)
    }
}

impl Layout {
    /// The axes in another order: axis `i` of the result is `axes[i]` of this layout.
    ///
    /// # Errors
    /// [`DlpackError::Axes`] where an axis is missing, twice there or unknown.
    pub fn permute(&self, axes: &[usize]) -> Result<Self, DlpackError> {
        let refused = || DlpackError::Axes {
            axes: axes.to_vec(),
            rank: self.rank(),
        };
        if axes.len() != self.rank() {
            return Err(refused());
        }
        let mut dims = Dims::zeroed(axes.len());
        // At most 64 axes: one bit each.
        let mut seen = 0_u64;
        let (shape, strides) = dims.parts_mut();
        for ((&axis, extent), stride) in axes.iter().zip(shape).zip(strides) {
            let (Some(&old_extent), Some(&old_stride)) =
                (self.shape().get(axis), self.strides().get(axis))
            else {
                return Err(refused());
            };
            if seen & (1 << axis) != 0 {
                return Err(refused());
            }
            seen |= 1 << axis;
            (*extent, *stride) = (old_extent, old_stride);
        }
        Self::finish(self.dtype(), self.is_padded(), dims, self.numel())
    }

    /// A part of the tensor, and how many elements its first one lies behind this layout's first (may be negative).
    /// [`Layout::byte_offset_of`] turns that into bytes.
    ///
    /// # Errors
    /// [`DlpackError::StrideCount`] where there is not one slice an axis, [`DlpackError::Slice`] where a slice leaves its axis.
    pub fn slice(&self, slices: &[AxisSlice]) -> Result<(Self, i64), DlpackError> {
        if slices.len() != self.rank() {
            return Err(DlpackError::StrideCount {
                shape: self.rank(),
                strides: slices.len(),
            });
        }
        let mut dims = Dims::zeroed(slices.len());
        let mut offset = 0_i128;
        let (shape, strides) = dims.parts_mut();
        let old = self.dims.axes().zip(slices).enumerate();
        for ((axis, ((extent, stride), slice)), (new_extent, new_stride)) in
            old.zip(shape.iter_mut().zip(strides))
        {
            let AxisSlice { start, step, len } = *slice;
            if !slice.is_inside(extent) {
                return Err(DlpackError::Slice {
                    axis,
                    start,
                    step,
                    len,
                    extent,
                });
            }
            *new_extent = len;
            // Saturates only where the stride has no meaning: fewer than two indexes, or no element at all.
            *new_stride = stride.saturating_mul(step);
            offset = offset.saturating_add(i128::from(start) * i128::from(stride));
        }
        let numel = count(shape)?;
        let layout = Self::finish(self.dtype(), self.is_padded(), dims, numel)?;
        if numel == 0 {
            return Ok((layout, 0));
        }
        // The first element is one of this layout's, so that its distance is inside the span.
        let refused = |_| DlpackError::Offset {
            offset,
            unit: "elements",
            end: self.span().max,
        };
        Ok((layout, i64::try_from(offset).map_err(refused)?))
    }

    /// The same elements in the same order under another shape, or `None` where that takes a copy or the number of
    /// elements differs.
    #[must_use]
    pub fn reshape(&self, shape: &[i64]) -> Option<Self> {
        let compact = Self::compact(self.dtype(), shape).ok()?;
        if compact.numel() != self.numel() {
            return None;
        }
        let mut dims = compact.dims;
        if self.numel() > 0 {
            self.reshape_strides(&mut dims)?;
        }
        Self::finish(self.dtype(), self.is_padded(), dims, self.numel()).ok()
    }

    /// Fills in strides from the last axis to the first: each run of old axes that lie one inside the other is cut up
    /// into whole new axes.
    fn reshape_strides(&self, dims: &mut Dims) -> Option<()> {
        let (shape, strides) = dims.parts_mut();
        let mut new_axes = shape.iter().zip(strides).rev();
        let mut old_axes = self
            .dims
            .axes()
            .rev()
            .filter(|&(extent, _)| extent != 1)
            .peekable();
        while let Some((mut run, base)) = old_axes.next() {
            while let Some((extent, _)) = old_axes
                .next_if(|&(_, stride)| i128::from(stride) == i128::from(run) * i128::from(base))
            {
                run = run.checked_mul(extent)?;
            }
            let mut done = 1_i64;
            while done < run {
                let (&extent, stride) = new_axes.next()?;
                *stride = done.checked_mul(base)?;
                done = done.checked_mul(extent)?;
            }
            if done != run {
                return None;
            }
        }
        // What is left has extent 1; the compact stride stays.
        Some(())
    }
}
