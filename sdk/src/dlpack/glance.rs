//! A look at a tensor from outside that is as most are: compact, of few axes, in memory that has addresses.
#![expect(
    unsafe_code,
    reason = "the shape is read through the producer's pointers"
)]

use super::data_word::DataWord;
use super::device_type::Device;
use super::dtype::Dtype;
use super::layout::DLTensor;

/// The most axes of a [`Compact`].
const FEW: usize = 4;

/// A tensor with elements in compact row-major order, copied out of the producer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compact {
    /// The address of the first element.
    pub data: DataWord,
    /// The number of axes.
    pub rank: usize,
    /// The extents, 0 behind the last axis.
    pub shape: [i64; FEW],
    /// The type of one element, none of whose values is smaller than a byte.
    pub dtype: Dtype,
    /// The device that the producer claims.
    pub device: Device,
}

/// The tensor, if it is one that [`validate`](super::validate) takes and that is [`Compact`]. `None` says nothing.
///
/// Every field is read once, and by itself: a copy in larger pieces than those in which the producer has just written
/// them would wait until they reach the cache.
///
/// # Safety
/// As [`validate`](super::validate).
#[must_use]
#[inline]
pub unsafe fn glance(tensor: &DLTensor) -> Option<Compact> {
    let rank = usize::try_from(tensor.ndim).ok()?;
    if rank > FEW || tensor.byte_offset != 0 || (rank > 0 && tensor.shape.is_null()) {
        return None;
    }
    let dtype = Dtype::from_raw(tensor.dtype).ok()?;
    if dtype.is_sub_byte() {
        return None;
    }
    let size = i64::from(dtype.element_bytes(false)?);
    let mut shape = [0; FEW];
    let mut numel = 1_i64;
    for (axis, place) in shape.iter_mut().take(rank).enumerate().rev() {
        // SAFETY: a shape that is not NULL has as many extents as axes, by the caller's promise.
        let extent = unsafe { number_at(tensor.shape, axis) };
        // SAFETY: as above, for strides that are not NULL.
        let lies_apart = !tensor.strides.is_null()
            && extent != 1
            && unsafe { number_at(tensor.strides, axis) } != numel;
        if extent <= 0 || lies_apart {
            return None;
        }
        *place = extent;
        numel = numel.checked_mul(extent)?;
    }
    let data = DataWord::from_ptr(tensor.data);
    let device = Device::from_raw(tensor.device);
    let end = i64::try_from(data.addr())
        .ok()?
        .checked_add(numel.checked_mul(size)?);
    let is_somewhere =
        !data.is_null() && end.is_some() && device.ty.is_addressed() && device.id >= 0;
    is_somewhere.then_some(Compact {
        data,
        rank,
        shape,
        dtype,
        device,
    })
}

/// # Safety
/// `numbers` is readable for more than `at` numbers; nothing is said of its alignment.
#[inline]
const unsafe fn number_at(numbers: *const i64, at: usize) -> i64 {
    // SAFETY: inside the numbers, by the caller's promise.
    let place = unsafe { numbers.add(at) };
    // SAFETY: as above.
    unsafe { place.read_unaligned() }
}
