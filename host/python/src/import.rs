//! DLPack in: `from_dlpack`.
#![expect(unsafe_code, reason = "takes over managed tensors from capsules")]

use crossdock_api::{CopyMode, DLManagedTensor, DLManagedTensorVersioned, XdTensor};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::capsule;
use crate::handle::{Handle, made};
use crate::runtime::{device_from, runtime};
use crate::table::api;
use crate::tensor::Tensor;

/// The version that is asked for first.
const VERSION: (u32, u32) = (1, 3);

/// Takes a tensor from any object that speaks DLPack, or from one of its capsules (once).
///
/// The result shares the memory unless a copy is needed to reach `device`, or asked for by
/// `copy=True`; then a write on one side is not seen on the other. `copy=False` forbids a copy.
///
/// Raises `UnsupportedDeviceError`, `CopyRequiredError`, `BufferError`, or what the producer raises.
#[pyfunction]
#[pyo3(signature = (x, /, *, device=None, copy=None))]
pub(crate) fn from_dlpack(
    x: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Tensor> {
    let py = x.py();
    let target = device.map(device_from).transpose()?;
    let tensor = match x.cast_exact::<Tensor>() {
        Ok(own) => own.get().share(),
        Err(_) => import(x)?,
    };
    let mode = match copy {
        None => CopyMode::IF_NEEDED,
        Some(true) => CopyMode::ALWAYS,
        Some(false) => CopyMode::NEVER,
    };
    let target = target.as_ref().map(|device| device.get());
    if target.is_none() && copy != Some(true) {
        return Ok(tensor);
    }
    tensor.moved(py, target, mode)
}

/// The producer's tensor on its own device.
fn import(x: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if let Some(tensor) = taken(x)? {
        return Tensor::new(tensor);
    }
    let capsule = ask(x)?;
    match taken(&capsule)? {
        Some(tensor) => Tensor::new(tensor),
        None => Err(PyBufferError::new_err(format!(
            "{}.__dlpack__ gave {}, which is no DLPack capsule",
            x.get_type().name()?,
            capsule.get_type().name()?
        ))),
    }
}

/// Asks a producer for a capsule; one that does not know the keyword is asked again without it.
fn ask<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let method = x.getattr("__dlpack__")?;
    let keywords = PyDict::new(py);
    keywords.set_item("max_version", PyTuple::new(py, [VERSION.0, VERSION.1])?)?;
    match method.call((), Some(&keywords)) {
        Err(first) if first.is_instance_of::<PyTypeError>(py) => {
            // The first error is the one to show: the producer may know the keyword.
            method.call0().or(Err(first))
        }
        capsule => capsule,
    }
}

/// The tensor in a capsule of either kind; `None` where `capsule` is something else.
fn taken(capsule: &Bound<'_, PyAny>) -> PyResult<Option<Handle<XdTensor>>> {
    let py = capsule.py();
    let runtime = runtime(py)?;
    if let Some(managed) = capsule::take::<DLManagedTensorVersioned>(capsule)? {
        return Ok(Some(made(|out| {
            // SAFETY: the capsule owned it, and has just given it up.
            unsafe { (api().tensor_import)(runtime.lend(), managed.as_ptr(), out) }
        })?));
    }
    let Some(managed) = capsule::take::<DLManagedTensor>(capsule)? else {
        return Ok(None);
    };
    Ok(Some(made(|out| {
        // SAFETY: as above.
        unsafe { (api().tensor_import_legacy)(runtime.lend(), managed.as_ptr(), out) }
    })?))
}
