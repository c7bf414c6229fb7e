//! Elements of any layout: read, written and packed by the fewest steps that the plugins can make.
//!
//! Each step below is one call of a hook, or many that cannot be declined; none comes back here.

use std::mem::MaybeUninit;

use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::Layout;

use crate::copies::order;
use crate::copies::span;
use crate::copies::transfer;
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::lend;
use crate::streams::stream::Stream;
use crate::tensors::memory::Memory;
use crate::tensors::tensor::{Tensor, compact};

/// A compact tensor for a step of a copy or a fill ([`Memory::allocate_for_step`]).
pub(crate) fn room(device: &Device, layout: &Layout) -> Result<Tensor, Error> {
    let layout = compact(layout)?;
    let memory = Memory::allocate_for_step(device, layout.bytes(), MemoryKind::DEVICE)?;
    Ok(Tensor::of(memory, layout, 0))
}

/// The same with these bytes, as many as it has.
pub(crate) fn room_with(device: &Device, layout: &Layout, bytes: &[u8]) -> Result<Tensor, Error> {
    let tensor = room(device, layout)?;
    transfer::write(&tensor, bytes)?;
    Ok(tensor)
}

/// The tensor itself where it is compact, else a compact copy on its own device.
pub(crate) fn packed(tensor: &Tensor, stream: Option<&Stream>) -> Result<Tensor, Error> {
    if tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    let packed = room(tensor.device(), tensor.layout())?;
    match transfer::copy_tensor(tensor.device(), &packed, tensor, stream) {
        Err(error) if error.is_unsupported() => {
            order::synchronize(stream)?;
            let bytes = span::gathered(tensor)?;
            lend(bytes, |bytes| transfer::write(&packed, bytes))?;
        }
        done => done?,
    }
    Ok(packed)
}

/// Copies a compact tensor into a strided one on the same device.
pub(crate) fn unpack(dst: &Tensor, packed: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    match transfer::copy_tensor(dst.device(), dst, packed, stream) {
        Err(error) if error.is_unsupported() => {
            order::synchronize(stream)?;
            lend(packed.read()?, |bytes| span::scatter(dst, bytes)).map(drop)
        }
        done => done,
    }
}

/// Reads a tensor into compact bytes, as many as it has.
pub(crate) fn read_into(tensor: &Tensor, bytes: &mut [MaybeUninit<u8>]) -> Result<(), Error> {
    match transfer::read(tensor, bytes) {
        Err(error) if error.is_unsupported() && !tensor.layout().is_contiguous() => {}
        done => return done,
    }
    let packed = room(tensor.device(), tensor.layout())?;
    match transfer::copy_tensor(tensor.device(), &packed, tensor, None) {
        Err(error) if error.is_unsupported() => span::gather(tensor, bytes),
        done => done.and_then(|()| transfer::read(&packed, bytes)),
    }
}

/// Writes compact bytes, as many as the tensor has, into a tensor whose elements do not overlap.
pub(crate) fn write(tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
    if tensor.layout().numel() == 0 {
        return Ok(());
    }
    if shares_last_byte(tensor) {
        return span::scatter(tensor, bytes);
    }
    match transfer::write(tensor, bytes) {
        Err(error) if error.is_unsupported() && !tensor.layout().is_contiguous() => {}
        done => return done,
    }
    let packed = room_with(tensor.device(), tensor.layout(), bytes)?;
    match transfer::copy_tensor(tensor.device(), tensor, &packed, None) {
        Err(error) if error.is_unsupported() => span::scatter(tensor, bytes),
        done => done,
    }
}

/// Whether a write of a compact tensor has to keep bits of its last byte, because they may be those of
/// another tensor's elements. In memory of this library's own that is written whole they are nobody's.
pub(crate) fn shares_last_byte(tensor: &Tensor) -> bool {
    let is_alone = || tensor.is_whole() && tensor.memory().root().is_allocated();
    tensor.bits() % 8 != 0 && tensor.layout().is_contiguous() && !is_alone()
}

/// The shortest run of elements of so many bits that fills whole bytes.
fn run_length(bits: u32) -> u32 {
    8 >> bits.trailing_zeros().min(3)
}

/// The bytes of such a run, whose elements are all the low bits of `element`.
pub(crate) fn run_of(element: &[u8], bits: u32) -> Vec<u8> {
    let bit = |at: u32| {
        let from = at % bits;
        let byte = element.get((from / 8) as usize);
        byte.map_or(0, |byte| (byte >> (from % 8) & 1) << (at % 8))
    };
    let bytes = run_length(bits) * bits / 8;
    (0..bytes)
        .map(|byte| (8 * byte..8 * byte + 8).map(bit).sum())
        .collect()
}

/// A compact tensor as two: the elements that fill whole bytes, and the few that do not.
pub(crate) fn split(tensor: &Tensor) -> Result<(Tensor, Tensor), Error> {
    let layout = tensor.layout();
    let last = layout.numel() % i64::from(run_length(layout.element_bits()));
    let whole = layout.numel() - last;
    // Padded elements fill whole bytes, so these are packed.
    let part = |count: i64| Layout::compact(layout.dtype(), &[count]);
    let body = part(whole)?;
    let behind = tensor.offset().saturating_add(body.bytes());
    let first = tensor.view(body, tensor.offset());
    Ok((first, tensor.view(part(last)?, behind)))
}

/// Copies the few compact elements of `src` into those of `dst`, whose last byte has other bits too.
pub(crate) fn copy_edge(dst: &Tensor, src: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    match transfer::copy_packed(dst, src, stream) {
        Err(error) if error.is_unsupported() => {
            order::synchronize(stream)?;
            lend(src.read()?, |bytes| span::scatter(dst, bytes)).map(drop)
        }
        done => done,
    }
}

#[cfg(test)]
#[path = "elements_tests.rs"]
mod tests;
