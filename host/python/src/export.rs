//! DLPack out: `Tensor.__dlpack__` and its relatives.
#![expect(unsafe_code, reason = "hands fresh exports to capsules")]

use std::ptr::NonNull;

use crossdock_api::{
    CopyMode, DLManagedTensor, DLManagedTensorVersioned, ExportFlags, Out, XdExportOptions,
};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::capsule::{self, Traveller};
use crate::error::check;
use crate::runtime::device_from;
use crate::table::api;
use crate::tensor::Tensor;

#[pymethods]
impl Tensor {
    /// Hands the tensor out as a DLPack capsule.
    ///
    /// `max_version` of `None` or `(0, x)` gives the struct of DLPack 0.x, which cannot say that a
    /// tensor is read-only. `dl_device` and `copy` as the array API says.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        check_stream(stream)?;
        let tensor = slf.get();
        let target = dl_device.map(device_from).transpose()?;
        let target = target.as_ref().map(|device| device.get());
        let moved = match (target, copy) {
            (None, None | Some(false)) => None,
            (_, Some(true)) => Some(tensor.moved(py, target, CopyMode::ALWAYS)?),
            (_, Some(false)) => Some(tensor.moved(py, target, CopyMode::NEVER)?),
            (_, None) => Some(tensor.moved(py, target, CopyMode::IF_NEEDED)?),
        };
        let is_copied = moved
            .as_ref()
            .is_some_and(|moved| moved.data() != tensor.data());
        let exported = moved.as_ref().unwrap_or(tensor);
        match max_version {
            Some((major, _)) if major >= 1 => exported.versioned(py, is_copied),
            Some(_) | None => exported.legacy(py),
        }
    }

    /// The DLPack pair `(type, id)` of its device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.info().device;
        (device.device_type, device.device_id)
    }
}

impl Tensor {
    fn versioned<'py>(&self, py: Python<'py>, is_copied: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut options = XdExportOptions::new();
        if is_copied {
            options.flags = ExportFlags::IS_COPIED;
        }
        let mut managed: *mut DLManagedTensorVersioned = std::ptr::null_mut();
        let out = Out::from(&mut managed);
        check((api().tensor_export)(
            self.handle().lend(),
            (&options).into(),
            out,
        ))?;
        hand_out(py, managed)
    }

    fn legacy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let options = XdExportOptions::new();
        let mut managed: *mut DLManagedTensor = std::ptr::null_mut();
        let out = Out::from(&mut managed);
        check((api().tensor_export_legacy)(
            self.handle().lend(),
            (&options).into(),
            out,
        ))?;
        hand_out(py, managed)
    }
}

fn hand_out<T: Traveller>(py: Python<'_>, managed: *mut T) -> PyResult<Bound<'_, PyAny>> {
    let Some(managed) = NonNull::new(managed) else {
        return Err(PyBufferError::new_err("the runtime exported nothing"));
    };
    // SAFETY: a fresh export that this call owns.
    unsafe { capsule::wrap(py, managed) }
}

/// Streams that a device without any takes: none.
fn check_stream(stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match stream {
        None => Ok(()),
        Some(stream) if stream.extract::<i64>().is_ok() => Err(PyValueError::new_err(
            "this device has no streams: give stream=None",
        )),
        Some(stream) => Err(PyTypeError::new_err(format!(
            "a stream is an int, not {stream}"
        ))),
    }
}
