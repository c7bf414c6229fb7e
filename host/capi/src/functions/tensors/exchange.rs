//! Tensors in and out: as DLPack, and as memory with an owner.
//!
//! What comes in is taken before anything else is looked at, so that every way out of a function,
//! a NULL argument and a panic among them, gives it back exactly once.
#![expect(unsafe_code, reason = "takes over tensors and memory of callers")]

use std::ptr::NonNull;

use crossdock::{Error, MemoryOwner, Runtime, Tensor, release_lent};
use crossdock_api::{
    CopyMode, DLManagedTensor, DLManagedTensorVersioned, ExportFlags, Failure, MemoryFlags,
    MemoryKind, Order, Out, Owned, Ref, XdExportOptions, XdImportOptions, XdMemory, XdMoveOptions,
    XdRuntime, XdTensor,
};
use crossdock_sdk::dlpack::{DataWord, Device, Flags, Received, TensorView};

use crate::crossing::boundary::{Place, fence_call, fence_into, required};
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{borrow, borrow_tensor, give_tensor, look};
use crate::functions::tensors::tensor::move_to;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_import(
    runtime: Ref<'_, XdRuntime>,
    managed: *mut DLManagedTensorVersioned,
    options: Ref<'_, XdImportOptions<'_>>,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_call("xd_tensor_import", || {
        let managed = NonNull::new(managed).ok_or_else(|| Refusal::null("tensor"))?;
        // SAFETY: the caller passes a live managed tensor and gives it up with this call.
        let give_back = || drop(unsafe { Received::from_versioned(managed) });
        let (place, runtime) = importing(runtime, out, give_back)?;
        // SAFETY: as above.
        let tensor = unsafe { Tensor::import_managed(runtime, managed) }?;
        place.put(give_tensor(as_wanted(tensor, options)?));
        Ok(())
    })
}

/// Where an import's answer goes, and its runtime; where one of them is not there the tensor is given back.
#[inline]
fn importing<'a, 'o>(
    runtime: Ref<'a, XdRuntime>,
    out: Out<'o, Owned<XdTensor>>,
    give_back: impl FnOnce(),
) -> Result<(Place<'o, Owned<XdTensor>>, &'a Runtime), Refusal> {
    let ready = required(out).and_then(|place| Ok((place, borrow(runtime)?)));
    ready.inspect_err(|_refusal| release_lent(give_back))
}

/// What was taken, behind the producer's work and where it is wanted.
#[inline]
fn as_wanted(tensor: Tensor, options: Ref<'_, XdImportOptions<'_>>) -> Result<Tensor, Refusal> {
    if options.is_null() {
        return Ok(tensor);
    }
    let options = input::options_or(options, XdImportOptions::new())?;
    let mut moving = XdMoveOptions::new();
    (moving.copy, moving.kind) = (options.copy, options.kind);
    moving.stream = options.stream;
    input::choice(&moving)?;
    if let Some(stream) = look(options.stream) {
        tensor.ready_on(stream)?;
    }
    let device = look(options.device);
    let is_wanted = device.is_some() || options.kind != MemoryKind::UNOWNED;
    if !is_wanted && options.copy != CopyMode::ALWAYS {
        return Ok(tensor);
    }
    let (moved, _route) = move_to(&tensor, device.unwrap_or(tensor.device()), &moving)?;
    Ok(moved)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_import_legacy(
    runtime: Ref<'_, XdRuntime>,
    managed: *mut DLManagedTensor,
    options: Ref<'_, XdImportOptions<'_>>,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_call("xd_tensor_import_legacy", || {
        let managed = NonNull::new(managed).ok_or_else(|| Refusal::null("tensor"))?;
        // SAFETY: the caller passes a live managed tensor and gives it up with this call.
        let give_back = || drop(unsafe { Received::from_legacy(managed) });
        let (place, runtime) = importing(runtime, out, give_back)?;
        // SAFETY: as above.
        let received = unsafe { Received::take_legacy(managed) };
        // Refused, it is still the caller's, who gave it up.
        let received = received.inspect_err(|_refused| release_lent(give_back));
        let tensor = Tensor::import(runtime, received.map_err(Error::from)?)?;
        place.put(give_tensor(as_wanted(tensor, options)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_from_memory(
    runtime: Ref<'_, XdRuntime>,
    memory: Ref<'_, XdMemory<'_>>,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_call("xd_tensor_from_memory", || {
        let known = MemoryFlags::READ_ONLY.0 | MemoryFlags::FIND_DEVICE.0;
        take_memory(
            runtime,
            memory,
            out,
            known,
            |runtime, view, flags, owner| {
                if flags & MemoryFlags::FIND_DEVICE.0 == 0 {
                    // SAFETY: the header asks the caller for live memory, which the owner keeps.
                    unsafe { Tensor::import_memory(runtime, view, owner) }
                } else {
                    // SAFETY: as above.
                    unsafe { Tensor::import_address(runtime, view, owner) }
                }
            },
        )
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_tensor_adopt_native(
    runtime: Ref<'_, XdRuntime>,
    memory: Ref<'_, XdMemory<'_>>,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_call("xd_tensor_adopt_native", || {
        let known = MemoryFlags::READ_ONLY.0;
        take_memory(
            runtime,
            memory,
            out,
            known,
            |runtime, view, _flags, owner| {
                // SAFETY: the header asks the caller for a live object, which the owner keeps.
                unsafe { Tensor::adopt_native(runtime, view, owner) }
            },
        )
    })
}

/// Makes a tensor of memory with an owner, who is released whatever the result.
fn take_memory(
    runtime: Ref<'_, XdRuntime>,
    memory: Ref<'_, XdMemory<'_>>,
    out: Out<'_, Owned<XdTensor>>,
    known_flags: u32,
    take: impl FnOnce(&Runtime, TensorView, u32, MemoryOwner) -> Result<Tensor, Error>,
) -> Result<(), Refusal> {
    let memory = input::options(memory)?.ok_or_else(|| Refusal::null("memory"))?;
    // SAFETY: the header asks for a function that may be called once with its word, on any thread.
    let owner = unsafe { MemoryOwner::from_raw(memory.owner, memory.release) };
    let flags = memory.flags.0;
    input::check_flags(flags, known_flags)?;
    let view = view_of(&memory)?;
    let place = required(out)?;
    let tensor = take(borrow(runtime)?, view, flags, owner)?;
    if let Some(stream) = look(memory.stream) {
        tensor.ready_on(stream)?;
    }
    place.put(give_tensor(tensor));
    Ok(())
}

fn view_of(memory: &XdMemory<'_>) -> Result<TensorView, Refusal> {
    let layout = input::checked_layout(&memory.layout)?;
    let has = |flag: MemoryFlags| memory.flags.0 & flag.0 != 0;
    let read_only = has(MemoryFlags::READ_ONLY);
    // Where it is looked for, what is named need not be a device.
    let is_looked_for = has(MemoryFlags::FIND_DEVICE) && layout.numel() != 0;
    let device = if is_looked_for {
        Device::CPU
    } else {
        Device::from_raw(memory.device)
    };
    Ok(TensorView::new(
        layout,
        DataWord::from_ptr(memory.data),
        memory.byte_offset,
        device,
        Flags::NONE.with(Flags::READ_ONLY, read_only),
    )?)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_export(
    tensor: Ref<'_, XdTensor>,
    options: Ref<'_, XdExportOptions<'_>>,
    out: Out<'_, *mut DLManagedTensorVersioned>,
) -> Failure {
    fence_into("xd_tensor_export", out, || {
        let tensor = borrow_tensor(tensor)?;
        let options = prepare(&tensor, options)?;
        let managed = tensor.export_unordered()?.into_raw().as_ptr();
        if options.flags == ExportFlags::IS_COPIED {
            // SAFETY: a fresh export of our own that nobody else has seen yet.
            let flags = unsafe { &mut (*managed).flags };
            *flags |= Flags::IS_COPIED.raw();
        }
        Ok(managed)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_try_export(
    tensor: Ref<'_, XdTensor>,
    out: Out<'_, *mut DLManagedTensorVersioned>,
) -> Failure {
    fence_into("xd_tensor_try_export", out, || {
        let produced = borrow_tensor(tensor)?.try_export()?;
        Ok(produced.map_or(std::ptr::null_mut(), |produced| {
            produced.into_raw().as_ptr()
        }))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_export_legacy(
    tensor: Ref<'_, XdTensor>,
    options: Ref<'_, XdExportOptions<'_>>,
    out: Out<'_, *mut DLManagedTensor>,
) -> Failure {
    fence_into("xd_tensor_export_legacy", out, || {
        let tensor = borrow_tensor(tensor)?;
        // A legacy tensor has no flags: that it is a copy is not said.
        prepare(&tensor, options)?;
        Ok(tensor.export_as()?.into_raw().as_ptr())
    })
}

/// Arranges the order that the consumer asks for.
fn prepare<'a>(
    tensor: &Tensor,
    options: Ref<'a, XdExportOptions<'a>>,
) -> Result<XdExportOptions<'a>, Refusal> {
    let options = input::options_or(options, XdExportOptions::new())?;
    input::check_flags(options.flags.0, ExportFlags::IS_COPIED.0)?;
    match (options.order, look(options.stream)) {
        (Order::READY, None) => tensor.synchronize(None)?,
        (Order::STREAM, Some(stream)) => tensor.wait_to_export(stream)?,
        (Order::UNORDERED, None) => {}
        (Order::STREAM, None) => {
            let why = "order 1 (XD_ORDER_STREAM) needs a stream, and there is none";
            return Err(Refusal::argument(why));
        }
        (Order(order @ 0..=2), Some(_)) => {
            let why = format!("a stream is given, and order {order} takes none");
            return Err(Refusal::argument(why));
        }
        (Order(order), _) => {
            return Err(Refusal::argument(format!("order {order} is unknown")));
        }
    }
    Ok(options)
}
