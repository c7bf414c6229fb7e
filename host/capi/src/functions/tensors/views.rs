//! Views of a tensor: a part, other axes, another shape, other elements. They share its memory.
#![expect(unsafe_code, reason = "reads arrays of callers")]

use crossdock::{Error, Tensor};
use crossdock_api::{Failure, MemoryFlags, Out, Owned, Ref, XdAxisSlice, XdLayout, XdTensor};
use crossdock_sdk::dlpack::{AxisSlice, MAX_RANK};

use crate::crossing::boundary::fence_into;
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{borrow_tensor, give_tensor};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_slice(
    tensor: Ref<'_, XdTensor>,
    count: u32,
    slices: *const XdAxisSlice,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_into("xd_tensor_slice", out, || {
        let tensor = borrow_tensor(tensor)?;
        let count = axis_count(count, tensor.layout().rank())?;
        // SAFETY: the caller passes NULL or `count` slices.
        let slices = unsafe { input::array(slices, count, "slices") }?;
        let slices: Vec<_> = slices.iter().map(axis_slice).collect();
        Ok(give_tensor(view(tensor.slice(&slices))?))
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_permute(
    tensor: Ref<'_, XdTensor>,
    count: u32,
    axes: *const u32,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_into("xd_tensor_permute", out, || {
        let tensor = borrow_tensor(tensor)?;
        let count = axis_count(count, tensor.layout().rank())?;
        // SAFETY: the caller passes NULL or `count` axes.
        let axes = unsafe { input::array(axes, count, "axes") }?;
        let axes: Vec<_> = axes.iter().map(|&axis| axis as usize).collect();
        Ok(give_tensor(view(tensor.permute(&axes))?))
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_reshape(
    tensor: Ref<'_, XdTensor>,
    ndim: u32,
    shape: *const i64,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_into("xd_tensor_reshape", out, || {
        let tensor = borrow_tensor(tensor)?;
        if ndim as usize > MAX_RANK {
            let why = format!("ndim {ndim} is more than {MAX_RANK}");
            return Err(Refusal::argument(why));
        }
        // SAFETY: the caller passes NULL or `ndim` extents.
        let shape = unsafe { input::array(shape, ndim.into(), "shape") }?;
        Ok(give_tensor(view(tensor.reshape(shape))?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_reinterpret(
    tensor: Ref<'_, XdTensor>,
    byte_offset: i64,
    layout: Ref<'_, XdLayout<'_>>,
    flags: MemoryFlags,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_into("xd_tensor_reinterpret", out, || {
        let tensor = borrow_tensor(tensor)?;
        input::check_flags(flags.0, MemoryFlags::READ_ONLY.0)?;
        let layout = input::layout(layout)?;
        let view = view(tensor.reinterpret(byte_offset, &layout))?;
        Ok(give_tensor(match flags == MemoryFlags::READ_ONLY {
            true => view.to_read_only(),
            false => view,
        }))
    })
}

/// A count that must be the tensor's number of axes: nothing is read of an array of another length.
fn axis_count(count: u32, rank: usize) -> Result<u64, Refusal> {
    if usize::try_from(count) == Ok(rank) {
        return Ok(count.into());
    }
    let why = format!("{count} axes were given for a tensor with {rank} axes");
    Err(Refusal::argument(why))
}

/// A view that cannot be is the caller's mistake, not that of who made the tensor.
fn view(made: Result<Tensor, Error>) -> Result<Tensor, Refusal> {
    made.map_err(|error| match error {
        Error::Exchange(why) => why.into(),
        other => other.into(),
    })
}

fn axis_slice(slice: &XdAxisSlice) -> AxisSlice {
    AxisSlice {
        start: slice.start,
        step: slice.step,
        len: slice.len,
    }
}
