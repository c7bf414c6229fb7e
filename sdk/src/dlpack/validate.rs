//! The validator of tensors from outside: it believes no field before it was checked against the others.
#![expect(
    unsafe_code,
    reason = "shape and strides are read through the producer's pointers"
)]

use super::data_word::DataWord;
use super::device_type::Device;
use super::dims::Dims;
use super::dtype::Dtype;
use super::error::DlpackError;
use super::flags::Flags;
use super::layout::DLTensor;
use super::strided::{Layout, MAX_RANK, check_span, count};
use super::tensor_view::{TensorView, check_place};

/// Checks a tensor and copies it out of the producer's memory. Nothing is written there.
///
/// Flag bits without a meaning are dropped, as everyone drops them: a newer producer may set them. Then the order is: rank, shape, extents, number of elements, dtype, strides (compact row-major where NULL) and their
/// span, `byte_offset`, data, device. The first that is wrong is reported. Unaligned shape and strides are read as they are.
///
/// # Errors
/// The [`DlpackError`] that names the field.
///
/// # Safety
/// Where `tensor.ndim` is between 1 and [`MAX_RANK`], `tensor.shape` and `tensor.strides` are each NULL or readable for
/// that many 64-bit numbers. Nothing else about the tensor needs to be true.
#[inline(always)]
pub unsafe fn validate(tensor: &DLTensor, flags: Flags) -> Result<TensorView, DlpackError> {
    let flags = flags.known();
    let refused = |_| DlpackError::Rank {
        ndim: i64::from(tensor.ndim),
        limit: MAX_RANK,
    };
    let rank = usize::try_from(tensor.ndim).map_err(refused)?;
    if rank > MAX_RANK {
        return Err(DlpackError::Rank {
            ndim: i64::from(tensor.ndim),
            limit: MAX_RANK,
        });
    }
    if rank > 0 && tensor.shape.is_null() {
        return Err(DlpackError::NullShape { ndim: rank });
    }
    let mut dims = Dims::zeroed(rank);
    // SAFETY: the rank was checked, and the caller promises that a shape that is not NULL has that many extents.
    unsafe { copy_numbers(tensor.shape, dims.shape_mut()) };
    let numel = count(dims.shape())?;
    let dtype = Dtype::from_raw(tensor.dtype)?;
    if tensor.strides.is_null() {
        dims.make_compact();
    } else {
        // SAFETY: the rank was checked, and the caller promises that strides that are not NULL are that many.
        unsafe { copy_numbers(tensor.strides, dims.strides_mut()) };
    }
    let padded = flags.contains(Flags::IS_SUBBYTE_TYPE_PADDED);
    let span = check_span(dtype.element_bits(padded), &dims, numel)?;
    let data = DataWord::from_ptr(tensor.data);
    let (byte_offset, device) = (tensor.byte_offset, Device::from_raw(tensor.device));
    check_place(span, numel, data, byte_offset, device)?;
    // Built at the end and at once: each step that moved the numbers would cost as much as the checks.
    let layout = Layout {
        dims,
        dtype,
        padded,
        numel,
        span,
    };
    Ok(TensorView {
        layout,
        data,
        byte_offset,
        device,
        flags,
    })
}

/// Copies numbers from memory that nobody promised to be aligned.
///
/// # Safety
/// `from` is readable for `to.len()` numbers; it may be anything where `to` is empty.
#[inline]
unsafe fn copy_numbers(from: *const i64, to: &mut [i64]) {
    // In pairs: what is written in single numbers is slow to be moved as a whole.
    let (pairs, last) = to.as_chunks_mut::<2>();
    let mut from = from.cast::<[i64; 2]>();
    for pair in pairs {
        // SAFETY: two more numbers are readable; alignment is not needed.
        *pair = unsafe { from.read_unaligned() };
        // SAFETY: still inside the numbers, or right behind them.
        from = unsafe { from.add(1) };
    }
    if let [last] = last {
        // SAFETY: one more number is readable; alignment is not needed.
        *last = unsafe { from.cast::<i64>().read_unaligned() };
    }
}
