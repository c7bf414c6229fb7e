//! `xd_tensor`: made, described, moved and given back.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock::{Device, Error, Route, Stream, Tensor};
use crossdock_api::{
    AddressForm, CopyMode, Failure, MemoryKind, Out, Owned, Ref, XdDevice, XdEmptyOptions,
    XdLayout, XdMoveOptions, XdRoute, XdTensor, XdTensorInfo,
};
use crossdock_sdk::fence::fence;

use crate::crossing::boundary::{fence_call, fence_into, fence_value, optional, required};
use crate::crossing::failure::{On as _, Refusal};
use crate::crossing::input;
use crate::crossing::object::{
    borrow, borrow_tensor, give, give_tensor, look, release_tensor, retain_tensor,
};
use crate::functions::route::RouteObject;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_empty(
    device: Ref<'_, XdDevice>,
    layout: Ref<'_, XdLayout<'_>>,
    options: Ref<'_, XdEmptyOptions<'_>>,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_into("xd_tensor_empty", out, || {
        let (device, layout) = (borrow(device)?, input::layout(layout)?);
        let options = input::options_or(options, XdEmptyOptions::new())?;
        let kind = match options.kind {
            MemoryKind::UNOWNED => MemoryKind::DEVICE,
            kind => kind,
        };
        let made = match look(options.stream) {
            None => Tensor::empty_of(device, &layout, kind),
            Some(stream) => Tensor::empty_on(in_its_order(stream, device, kind)?, &layout),
        };
        Ok(give_tensor(made.on(device)?))
    })
}

/// Refuses a stream in whose order memory like this is not allocated.
fn in_its_order<'a>(
    stream: &'a Stream,
    device: &Device,
    kind: MemoryKind,
) -> Result<&'a Stream, Refusal> {
    if stream.device() != device {
        let why = format!(
            "the stream is of `{}`, and `{device}` is to allocate",
            stream.device()
        );
        return Err(Refusal::argument(why));
    }
    if kind != MemoryKind::DEVICE {
        let why = format!(
            "memory of kind {} is allocated in no stream's order",
            kind.0
        );
        return Err(Refusal::argument(why));
    }
    Ok(stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_describe(
    tensor: Ref<'_, XdTensor>,
    out: Out<'_, XdTensorInfo>,
) -> Failure {
    fence_into("xd_tensor_describe", out, || {
        let tensor = borrow_tensor(tensor)?;
        Ok(describe(&tensor))
    })
}

fn describe(tensor: &Tensor) -> XdTensorInfo {
    let (layout, address) = (tensor.layout(), tensor.address());
    let array = |numbers: &[i64]| match numbers {
        [] => std::ptr::null(),
        numbers => numbers.as_ptr(),
    };
    let (data, byte_offset) = match address.form {
        AddressForm::HANDLE => (address.word, address.offset),
        _ => (address.as_pointer().unwrap_or(0), 0),
    };
    let empty = layout.numel() == 0;
    XdTensorInfo {
        device: tensor.dlpack_device().to_raw(),
        dtype: layout.dtype().to_raw(),
        // At most 64.
        ndim: u32::try_from(layout.rank()).unwrap_or(u32::MAX),
        shape: array(layout.shape()),
        strides: array(layout.strides()),
        // Never negative.
        numel: u64::try_from(layout.numel()).unwrap_or(0),
        nbytes: tensor.nbytes(),
        data: if empty { 0 } else { data },
        byte_offset: if empty { 0 } else { byte_offset },
        form: address.form,
        memory_kind: tensor.memory_kind(),
        read_only: tensor.is_read_only().into(),
        contiguous: layout.is_contiguous().into(),
        padded: layout.is_padded().into(),
        reserved: 0,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_device(
    tensor: Ref<'_, XdTensor>,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_tensor_device", out, || {
        Ok(give(borrow_tensor(tensor)?.device().clone()))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_to(
    tensor: Ref<'_, XdTensor>,
    device: Ref<'_, XdDevice>,
    options: Ref<'_, XdMoveOptions<'_>>,
    out: Out<'_, Owned<XdTensor>>,
    route: Out<'_, Owned<XdRoute>>,
) -> Failure {
    fence_call("xd_tensor_to", || {
        let (out, out_route) = (required(out)?, optional(route));
        let options = input::options_or(options, XdMoveOptions::new())?;
        let tensor = borrow_tensor(tensor)?;
        let (moved, route) = move_to(&tensor, borrow(device)?, &options)?;
        if out_route.is_wanted() {
            out_route.put(give(RouteObject::new(route)));
        }
        out.put(give_tensor(moved));
        Ok(())
    })
}

/// Moves a tensor; the stream is lent for the call.
pub(crate) fn move_to(
    tensor: &Tensor,
    device: &Device,
    options: &XdMoveOptions<'_>,
) -> Result<(Tensor, Route), Refusal> {
    let choice = input::choice(options)?;
    let target = input::target(device, options.kind);
    match tensor.move_to(&target, choice, look(options.stream)) {
        Err(Error::Refused { reasons, .. }) if options.copy == CopyMode::NEVER => {
            let why = reasons.join("; ");
            Err(Refusal::CopyRequired { why })
        }
        moved => moved.on_one_of(device, tensor.device()),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_retain(tensor: Ref<'_, XdTensor>) -> Owned<XdTensor> {
    fence_value(|| retain_tensor(tensor))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_free(tensor: Owned<XdTensor>) {
    fence(|| release_tensor(tensor)).unwrap_or_default();
}
