//! The layout of a tensor: dtype, shape and strides that are known to fit into 63 bits of bytes.

use super::dims::Dims;
use super::dtype::Dtype;
use super::error::DlpackError;

/// The highest number of dimensions.
pub const MAX_RANK: usize = 64;

/// The bytes a tensor touches, relative to its first element: `min` is 0 or below, `max` is the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Span {
    /// The first byte.
    pub min: i64,
    /// The byte behind the last.
    pub max: i64,
}

/// Dtype, shape and strides (in elements) of a tensor.
///
/// A layout that exists has extents of 0 or more, at most [`MAX_RANK`] of them, and neither its number of bytes nor its
/// [`Span`] needs more than 63 bits. Strides may be negative, zero or overlapping.
///
/// ```
/// use crossdock_sdk::dlpack::{Dtype, Layout};
///
/// let rows = Layout::compact(Dtype::FLOAT32, &[2, 3])?;
/// assert_eq!(rows.strides(), [3, 1]);
/// let columns = rows.permute(&[1, 0])?;
/// assert_eq!((columns.shape(), columns.is_contiguous()), ([3, 2].as_slice(), false));
/// # Ok::<(), crossdock_sdk::dlpack::DlpackError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) dims: Dims,
    pub(super) dtype: Dtype,
    pub(super) padded: bool,
    pub(super) numel: i64,
    pub(super) span: Span,
}

impl Layout {
    /// Compact row-major order; elements smaller than a byte are packed.
    ///
    /// # Errors
    /// Too many dimensions, a negative extent, or a size above 63 bits.
    pub fn compact(dtype: Dtype, shape: &[i64]) -> Result<Self, DlpackError> {
        let mut dims = dims_of(shape)?;
        let numel = count(shape)?;
        dims.make_compact();
        Self::finish(dtype, false, dims, numel)
    }

    /// With strides in elements; elements smaller than a byte are packed.
    ///
    /// # Errors
    /// As [`Layout::compact`], and strides of another number than the extents or that reach too far.
    pub fn strided(dtype: Dtype, shape: &[i64], strides: &[i64]) -> Result<Self, DlpackError> {
        if shape.len() != strides.len() {
            return Err(DlpackError::StrideCount {
                shape: shape.len(),
                strides: strides.len(),
            });
        }
        let mut dims = dims_of(shape)?;
        let numel = count(shape)?;
        dims.strides_mut().copy_from_slice(strides);
        Self::finish(dtype, false, dims, numel)
    }

    /// The same with elements smaller than a byte padded to whole bytes, or packed.
    ///
    /// # Errors
    /// A size or span that now takes more than 63 bits.
    pub fn with_padding(&self, padded: bool) -> Result<Self, DlpackError> {
        Self::finish(self.dtype, padded, self.dims.clone(), self.numel)
    }

    /// A layout, once size and span are checked; `numel` is [`count`] of the shape.
    #[inline(always)]
    pub(super) fn finish(
        dtype: Dtype,
        padded: bool,
        dims: Dims,
        numel: i64,
    ) -> Result<Self, DlpackError> {
        let span = check_span(dtype.element_bits(padded), &dims, numel)?;
        Ok(Self {
            dims,
            dtype,
            padded,
            numel,
            span,
        })
    }

    /// The type of one element.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether elements smaller than a byte take whole bytes.
    #[must_use]
    pub const fn is_padded(&self) -> bool {
        self.padded
    }

    /// The number of dimensions.
    #[must_use]
    #[inline]
    pub fn rank(&self) -> usize {
        self.dims.rank()
    }

    /// The extents.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> &[i64] {
        self.dims.shape()
    }

    /// The strides, in elements.
    #[must_use]
    #[inline]
    pub fn strides(&self) -> &[i64] {
        self.dims.strides()
    }

    /// The number of elements.
    #[must_use]
    pub const fn numel(&self) -> i64 {
        self.numel
    }

    /// Bits from one element to the next.
    #[must_use]
    pub fn element_bits(&self) -> u32 {
        self.dtype.element_bits(self.padded)
    }

    /// Bytes that the elements take when they lie compact.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // Below 2^63 by construction.
        u64::try_from(bytes(i128::from(self.numel), self.element_bits())).unwrap_or(u64::MAX)
    }

    /// The bytes that are touched, relative to the first element. A layout without elements touches none.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Whether the elements lie in compact row-major order. Strides of extents of 1 and of layouts without elements
    /// carry no meaning and are ignored.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        if self.numel == 0 {
            return true;
        }
        let mut expected = 1_i64;
        for (extent, stride) in self.dims.axes().rev() {
            if extent != 1 && stride != expected {
                return false;
            }
            expected = expected.saturating_mul(extent);
        }
        true
    }

    /// Bytes for an offset in elements, as [`Layout::slice`] gives it.
    ///
    /// # Errors
    /// [`DlpackError::MidByte`] where a packed element begins in the middle of a byte, which DLPack cannot say;
    /// [`DlpackError::Offset`] where 63 bits do not count the bytes.
    pub fn byte_offset_of(&self, elements: i64) -> Result<i64, DlpackError> {
        let bits = i128::from(elements) * i128::from(self.element_bits());
        if bits % 8 != 0 {
            return Err(DlpackError::MidByte { bits });
        }
        i64::try_from(bits / 8).map_err(|_too_far| DlpackError::Offset {
            offset: bits,
            unit: "bits",
            end: self.span.max,
        })
    }
}

/// The number of elements, as long as 63 bits count them.
#[inline(always)]
pub(super) fn count(shape: &[i64]) -> Result<i64, DlpackError> {
    let mut product = Some(1_i64);
    let mut empty = false;
    for (axis, &extent) in shape.iter().enumerate() {
        if extent < 0 {
            return Err(DlpackError::NegativeExtent { axis, extent });
        }
        empty |= extent == 0;
        product = product.and_then(|so_far| so_far.checked_mul(extent));
    }
    if empty {
        return Ok(0);
    }
    product.ok_or_else(|| size_overflow(shape, 1))
}

/// Checks that neither the size nor the span takes more than 63 bits of bytes.
#[inline(always)]
pub(super) fn check_span(element_bits: u32, dims: &Dims, numel: i64) -> Result<Span, DlpackError> {
    if let Some(span) = quick_span(dims, element_bits, numel) {
        return Ok(span);
    }
    if i64::try_from(bytes(i128::from(numel), element_bits)).is_err() {
        return Err(size_overflow(dims.shape(), element_bits));
    }
    span_of(dims, element_bits, numel).ok_or_else(|| DlpackError::SpanOverflow {
        shape: dims.shape().to_vec(),
        strides: dims.strides().to_vec(),
        limit: i64::MAX,
    })
}

/// Storage with this shape and strides of zero.
fn dims_of(shape: &[i64]) -> Result<Dims, DlpackError> {
    if shape.len() > MAX_RANK {
        let ndim = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        return Err(DlpackError::Rank {
            ndim,
            limit: MAX_RANK,
        });
    }
    let mut dims = Dims::zeroed(shape.len());
    dims.shape_mut().copy_from_slice(shape);
    Ok(dims)
}

#[cold]
fn size_overflow(shape: &[i64], element_bits: u32) -> DlpackError {
    DlpackError::SizeOverflow {
        shape: shape.to_vec(),
        element_bits,
        limit: i64::MAX,
    }
}

#[inline]
fn bytes(elements: i128, element_bits: u32) -> i128 {
    // 2^63 elements of 2^23 bits: no overflow.
    (elements * i128::from(element_bits) + 7) >> 3
}

/// Size and span of all but huge tensors, counted in 64 bits throughout; `None` where these are too
/// few for a bit on the way.
#[inline(always)]
fn quick_span(dims: &Dims, element_bits: u32, numel: i64) -> Option<Span> {
    let bits = i64::from(element_bits);
    numel.checked_mul(bits)?.checked_add(7)?;
    if numel == 0 {
        return Some(Span { min: 0, max: 0 });
    }
    let (mut low, mut high) = (0_i64, 0_i64);
    for (extent, stride) in dims.axes() {
        let reach = (extent - 1).checked_mul(stride)?;
        if reach < 0 {
            low = low.checked_add(reach)?;
        } else {
            high = high.checked_add(reach)?;
        }
    }
    let end = high.checked_add(1)?.checked_mul(bits)?.checked_add(7)?;
    Some(Span {
        min: low.checked_mul(bits)? >> 3,
        max: end >> 3,
    })
}

/// Lowest and highest byte, or `None` where 63 bits are too few.
#[inline(always)]
fn span_of(dims: &Dims, element_bits: u32, numel: i64) -> Option<Span> {
    if numel == 0 {
        return Some(Span { min: 0, max: 0 });
    }
    let (mut low, mut high) = (0_i128, 0_i128);
    for (extent, stride) in dims.axes() {
        // Two 64-bit factors: the product fits, only the sums need a check.
        let reach = i128::from(extent - 1) * i128::from(stride);
        if reach < 0 {
            low = low.checked_add(reach)?;
        } else {
            high = high.checked_add(reach)?;
        }
    }
    let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
    let min = i64::try_from((i128::from(low) * i128::from(element_bits)) >> 3).ok()?;
    let max = i64::try_from(bytes(i128::from(high) + 1, element_bits)).ok()?;
    Some(Span { min, max })
}
