//! Strided tensors of plugins that copy only bytes: their whole span goes through the host.

use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::error::Error;
use crate::tensor::Tensor;

/// The elements as compact bytes.
///
/// # Errors
/// As [`Tensor::read`]; `UNSUPPORTED` in a host without its own CPU plugin.
pub(crate) fn gather(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    Span::of(tensor)?.elements.read()
}

/// Replaces the elements by compact bytes, and nothing between them.
///
/// # Errors
/// As [`gather`].
pub(crate) fn scatter(tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
    let span = Span::of(tensor)?;
    span.elements.write(bytes)?;
    span.on_device.write(&span.on_host.read()?)
}

/// All bytes from a tensor's first to its last, and a copy of them in host memory.
struct Span {
    on_device: Tensor,
    on_host: Tensor,
    /// The tensor's elements in the copy.
    elements: Tensor,
}

impl Span {
    fn of(tensor: &Tensor) -> Result<Self, Error> {
        let span = tensor.layout().span();
        let length = i64::try_from(span.max.abs_diff(span.min))
            .map_err(|error| Error::misuse("copy a strided tensor", error.to_string()))?;
        let bytes = Layout::compact(Dtype::UINT8, &[length])?;
        let start = tensor.offset().wrapping_add_signed(span.min);
        let on_device = tensor.view(bytes.clone(), start);
        let on_host = Tensor::from_bytes(&host(tensor)?, &bytes, &on_device.read()?)?;
        let first = span.min.unsigned_abs();
        let elements = on_host.view(tensor.layout().clone(), first);
        Ok(Self {
            on_device,
            on_host,
            elements,
        })
    }
}

/// A device whose plugin copies strided host memory.
#[cfg(feature = "cpu")]
fn host(_tensor: &Tensor) -> Result<crate::device::Device, Error> {
    crate::builtin::device()
}

#[cfg(not(feature = "cpu"))]
fn host(tensor: &Tensor) -> Result<crate::device::Device, Error> {
    Err(tensor.device().hooks().missing("copy_strided"))
}
