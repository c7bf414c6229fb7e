//! Reading host memory in the child of a fork, where the plugin that made it may not be called.
#![expect(unsafe_code, reason = "reads memory that a tensor keeps alive")]

use std::mem::MaybeUninit;

use crate::tensor::{Tensor, compact};
use crate::walk::{self, Places};

/// Reads the elements of an inherited tensor into compact bytes, as many as it has; `None` where the
/// host cannot address them.
pub(crate) fn read(tensor: &Tensor, bytes: &mut [MaybeUninit<u8>]) -> Option<()> {
    let address = tensor.memory().host_address(tensor.offset())?;
    tensor.check_length("read a tensor", bytes.len()).ok()?;
    let layout = tensor.layout();
    let compact = compact(layout).ok()?;
    // Bits behind the last packed element are nobody's.
    bytes.fill(MaybeUninit::new(0));
    let dst = Places {
        base: bytes.as_mut_ptr().cast::<u8>(),
        first: 0,
        strides: compact.strides(),
    };
    let src = Places {
        base: std::ptr::with_exposed_provenance(usize::try_from(address).ok()?),
        first: 0,
        strides: layout.strides(),
    };
    // SAFETY:
    // - The tensor's layout was checked to lie inside its memory, which it keeps alive.
    // - `bytes` has as many as the compact layout, and is the caller's own, so the two are apart.
    // - Of the threads that wrote the memory in the parent none is in this process.
    unsafe { walk::copy(layout.element_bits(), layout.shape(), dst, src) };
    Some(())
}
