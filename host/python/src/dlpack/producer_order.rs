//! The order of a producer's work: behind which streams a tensor that it gave is ready.
//!
//! A producer names streams by its own numbers of devices, and memory by what it takes it for. Where the pointer says
//! otherwise, the stream that was meant may be one of the memory's own device.
#![expect(
    unsafe_code,
    reason = "calls exchange tables, and wraps the streams that they name"
)]

use crossdock_api::{DLDevice, DLPackExchangeAPI, MemoryKind, XdStream};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::link::error::check;
use crate::link::handle::Handle;
use crate::link::process_runtime::device_of;
use crate::link::table::api;
use crate::objects::stream_numbers;
use crate::tensors::tensor::Tensor;

/// A tensor is ready behind what its producer announced on `stream`, the one that work here is on of the device that the
/// producer stated.
///
/// # Errors
/// What the plugin answers.
pub(crate) fn ready_behind(
    py: Python<'_>,
    tensor: &Tensor,
    stated: DLDevice,
    stream: Handle<XdStream>,
) -> PyResult<()> {
    let others = also_meant(py, tensor, stated)?;
    if others.is_empty() {
        return ready_on(tensor, &stream);
    }
    let is_default = is_default_stream(&stream);
    // Managed memory has one name for all devices: the default stream is that of its own.
    let is_managed = tensor.info()?.memory_kind == MemoryKind::MANAGED;
    if !is_managed || !is_default {
        ready_on(tensor, &stream)?;
    }
    for device in others {
        // The default stream has one number on all devices.
        let default_stream = stream_numbers::default_of(py, device)?;
        if let Some(default_stream) = default_stream.filter(|_| is_default) {
            ready_on(tensor, &default_stream)?;
        }
        // Who works on a stream of their own makes it the current one of the device that it is on.
        let current = stream_numbers::current(py, device)?;
        if let Some(current) = current.filter(|current| !is_default || !is_default_stream(current))
        {
            ready_on(tensor, &current)?;
        }
    }
    Ok(())
}

/// A tensor is ready behind the stream that its producer works on, as its exchange table says.
///
/// # Errors
/// What the table raises, and what the plugin answers.
pub(crate) fn ready_behind_current(
    py: Python<'_>,
    table: &DLPackExchangeAPI,
    tensor: &Tensor,
    stated: DLDevice,
) -> PyResult<()> {
    let Some(ask) = table.current_work_stream else {
        return Ok(());
    };
    let mut native = std::ptr::null_mut();
    // SAFETY: a place of ours.
    let answer = unsafe { ask(stated.device_type, stated.device_id, &raw mut native) };
    if answer != 0 {
        return Err(failure_of_table(py, "named no stream"));
    }
    let others = also_meant(py, tensor, stated)?;
    // It is asked by its own number of the device, so what it names is a stream of the memory's device.
    let device = others.first().copied().unwrap_or(stated);
    // NULL is the vendor's default stream, whatever stream work here is on.
    if native.is_null() {
        let default_stream = stream_numbers::default_of(py, device)?;
        return default_stream.map_or(Ok(()), |stream| ready_on(tensor, &stream));
    }
    let native = native.addr() as u64;
    // SAFETY: the producer names the stream that it works on.
    let stream = unsafe { stream_numbers::wrapped(py, device, native) };
    let stream = match stream {
        // Or of the device that it stated.
        // SAFETY: as above.
        Err(_) if device != stated => unsafe { stream_numbers::wrapped(py, stated, native) },
        stream => stream,
    };
    ready_on(tensor, &stream?)
}

/// What a producer's table raised, or that it raised nothing.
pub(crate) fn failure_of_table(py: Python<'_>, what: &str) -> PyErr {
    PyErr::take(py)
        .unwrap_or_else(|| PyBufferError::new_err(format!("the producer's exchange table {what}")))
}

/// The devices whose streams a producer may have meant beside the one that it stated: none where the memory is there.
fn also_meant(py: Python<'_>, tensor: &Tensor, stated: DLDevice) -> PyResult<Vec<DLDevice>> {
    // What most producers say is right, and is known without asking whose memory it is.
    if tensor.info()?.device == stated && stream_numbers::home(stated) == stated {
        return Ok(Vec::new());
    }
    let stated = stream_numbers::home(stated);
    let own = tensor.own_device()?.pair();
    if own == stated {
        return Ok(Vec::new());
    }
    if own.device_type == stated.device_type {
        return Ok(vec![own]);
    }
    // Memory of the host, which any device of the vendor's may write.
    let of_vendor = (0..).map(|device_id| DLDevice {
        device_id,
        ..stated
    });
    let here = of_vendor.take_while(|device| device_of(py, *device).is_ok());
    Ok(here.filter(|device| *device != stated).collect())
}

fn is_default_stream(stream: &Handle<XdStream>) -> bool {
    stream_numbers::native(stream).is_ok_and(|native| native <= 1)
}

fn ready_on(tensor: &Tensor, stream: &Handle<XdStream>) -> PyResult<()> {
    let handle = tensor.handle();
    check((api().tensor_ready_on)(handle.lend(), stream.lend()))?;
    Ok(())
}
