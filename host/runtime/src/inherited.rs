//! Reading host memory in the child of a fork, where the plugin that made it may not be called.
#![expect(unsafe_code, reason = "reads memory that a tensor keeps alive")]

use std::mem::MaybeUninit;

use crate::tensor::Tensor;

/// Reads the elements of an inherited tensor into compact bytes, as many as it has; `None` where the
/// host cannot address them, or they are not whole bytes.
pub(crate) fn read(tensor: &Tensor, bytes: &mut [MaybeUninit<u8>]) -> Option<()> {
    let address = tensor.memory().host_address(tensor.offset())?;
    let layout = tensor.layout();
    let bits = usize::try_from(layout.element_bits()).ok()?;
    let size = Some(bits / 8).filter(|size| *size > 0 && bits % 8 == 0)?;
    let mut index = vec![0; layout.rank()];
    for place in bytes.chunks_exact_mut(size) {
        let steps = index.iter().zip(layout.strides());
        let elements: i64 = steps.map(|(at, stride)| at * stride).sum();
        let offset = elements.checked_mul(i64::try_from(size).ok()?)?;
        let from = usize::try_from(address.checked_add_signed(offset)?).ok()?;
        let from = std::ptr::with_exposed_provenance::<MaybeUninit<u8>>(from);
        // SAFETY: the layout was checked to lie inside the memory, which the tensor keeps alive; an
        // element and its place have `size` bytes, and the place is the caller's own.
        unsafe { from.copy_to_nonoverlapping(place.as_mut_ptr(), size) };
        advance(&mut index, layout.shape());
    }
    Some(())
}

/// The next index, the last axis running fastest.
fn advance(index: &mut [i64], shape: &[i64]) {
    for (at, size) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *size {
            return;
        }
        *at = 0;
    }
}
