//! Copies between memories by one call of one hook each; what a plugin declines is for
//! [`elements`](crate::copies::elements) to make in other steps.
#![expect(unsafe_code, reason = "hands memory that it keeps alive to copy hooks")]

use std::mem::MaybeUninit;
use std::sync::Arc;

use crossdock_sdk::abi::{CopyArgs, Side, StreamHandle, StridedArgs};
use crossdock_sdk::dlpack::Layout;

use crate::copies::order::{self, Accesses};
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::host_memory::{address_of, host_side};
use crate::hooks::plugin_hooks::Hooks;
use crate::process::trace;
use crate::streams::stream::Stream;
use crate::tensors::tensor::{Tensor, compact};

/// One end of a copy: where the first element is, and how the elements lie.
#[derive(Clone, Copy)]
struct CopyEnd<'a> {
    side: Side,
    layout: &'a Layout,
}

impl<'a> CopyEnd<'a> {
    /// A tensor as its own plugin sees it.
    fn of(tensor: &'a Tensor) -> Self {
        Self {
            side: tensor.memory().side(tensor.offset()),
            layout: tensor.layout(),
        }
    }

    /// A tensor as the plugin of `maker` sees it: its own, or host memory where the host can
    /// dereference it.
    fn seen_by(maker: &Device, tensor: &'a Tensor) -> Option<Self> {
        if Arc::ptr_eq(maker.plugin(), tensor.device().plugin()) {
            return Some(Self::of(tensor));
        }
        let address = tensor.memory().host_address(tensor.offset())?;
        Some(Self {
            side: host_side(address),
            layout: tensor.layout(),
        })
    }
}

/// Copies every element of `src` to `dst` by a plugin, on a stream, or at once without.
///
/// # Safety
/// - Both ends are valid for the elements of their layouts until the copy is done, and do not
///   overlap.
unsafe fn copy(
    hooks: &Hooks,
    dst: CopyEnd<'_>,
    src: CopyEnd<'_>,
    stream: StreamHandle,
) -> Result<(), Error> {
    if src.layout.numel() == 0 {
        return Ok(());
    }
    let _span = trace::span("copy", "copy", || {
        let (bytes, ordered) = (src.layout.bytes(), !stream.is_none());
        serde_json::json!({ "plugin": hooks.name(), "bytes": bytes, "ordered": ordered })
    });
    if dst.layout.is_contiguous() && src.layout.is_contiguous() {
        let args = CopyArgs {
            dst: dst.side,
            src: src.side,
            bytes: src.layout.bytes(),
        };
        // SAFETY: both are compact, so the bytes of their layouts are what the caller vouches for.
        return unsafe { hooks.copy(args, stream) };
    }
    // SAFETY: the caller's promise, passed on.
    unsafe { copy_strided(hooks, dst, src, stream) }
}

/// As [`copy`], by the hook that touches the bits of elements and no others.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_strided(
    hooks: &Hooks,
    dst: CopyEnd<'_>,
    src: CopyEnd<'_>,
    stream: StreamHandle,
) -> Result<(), Error> {
    let args = StridedArgs {
        dst: dst.side,
        src: src.side,
        element_bits: src.layout.element_bits(),
        rank: u32::try_from(src.layout.rank()).unwrap_or(u32::MAX),
        shape: src.layout.shape().as_ptr(),
        dst_strides: dst.layout.strides().as_ptr(),
        src_strides: src.layout.strides().as_ptr(),
    };
    // SAFETY: the arrays are the layouts', which have `rank` numbers each and outlive the call;
    // the elements are what the caller vouches for.
    unsafe { hooks.copy_strided(args, stream) }
}

/// Copies a tensor into another of the same shape and dtype by `maker`'s plugin, in the order of a
/// stream, or done when it returns. The two do not overlap.
///
/// # Errors
/// `UNSUPPORTED` where the plugin cannot make it: nothing was changed.
pub(crate) fn copy_tensor(
    maker: &Device,
    dst: &Tensor,
    src: &Tensor,
    stream: Option<&Stream>,
) -> Result<(), Error> {
    between(maker, dst, src, |dst, src, accesses| {
        order::run(maker, stream, accesses, |stream| {
            // SAFETY: both layouts lie inside their memories, which remember the work and outlive
            // it.
            unsafe { copy(maker.hooks(), dst, src, stream) }
        })
    })
}

/// As [`copy_tensor`] by the plugin of `dst`, where the bits behind its last element are to stay.
///
/// # Errors
/// As [`copy_tensor`].
pub(crate) fn copy_packed(
    dst: &Tensor,
    src: &Tensor,
    stream: Option<&Stream>,
) -> Result<(), Error> {
    let maker = dst.device();
    between(maker, dst, src, |dst, src, accesses| {
        order::run(maker, stream, accesses, |stream| {
            // SAFETY: both layouts lie inside their memories, which remember the work and outlive
            // it.
            unsafe { copy_strided(maker.hooks(), dst, src, stream) }
        })
    })
}

/// Calls `work` with both ends as `maker` sees them, where it sees both.
fn between(
    maker: &Device,
    dst: &Tensor,
    src: &Tensor,
    work: impl FnOnce(CopyEnd<'_>, CopyEnd<'_>, Accesses<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (Some(to), Some(from)) = (CopyEnd::seen_by(maker, dst), CopyEnd::seen_by(maker, src))
    else {
        return Err(maker.hooks().missing("copy"));
    };
    work(to, from, Accesses::copy(dst, src))
}

/// Reads a tensor into compact bytes, as many as it has.
///
/// # Errors
/// `UNSUPPORTED` where the plugin cannot make it as one copy.
pub(crate) fn read(tensor: &Tensor, bytes: &mut [MaybeUninit<u8>]) -> Result<(), Error> {
    tensor.check_length("read a tensor", bytes.len())?;
    let compact = compact(tensor.layout())?;
    let dst = CopyEnd {
        side: host_side(address_of(bytes.as_mut_ptr().cast())),
        layout: &compact,
    };
    let accesses = Accesses::reads(tensor);
    order::run(tensor.device(), None, accesses, |stream| {
        // SAFETY: `bytes` is as long as the compact layout, and the copy is done when it returns;
        // the tensor is alive.
        unsafe { copy(tensor.device().hooks(), dst, CopyEnd::of(tensor), stream) }
    })
}

/// Writes compact bytes, as many as the tensor has, into a tensor, with the bits behind a last
/// element that ends inside a byte.
///
/// # Errors
/// `UNSUPPORTED` where the plugin cannot make it as one copy: nothing was changed.
pub(crate) fn write(tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
    tensor.check_length("write a tensor", bytes.len())?;
    let compact = compact(tensor.layout())?;
    let src = CopyEnd {
        side: host_side(address_of(bytes.as_ptr().cast_mut())),
        layout: &compact,
    };
    let accesses = Accesses::writes(tensor);
    order::run(tensor.device(), None, accesses, |stream| {
        // SAFETY: `bytes` is as long as the compact layout and is only read, and the copy is done
        // when it returns; the tensor is alive.
        unsafe { copy(tensor.device().hooks(), CopyEnd::of(tensor), src, stream) }
    })
}
