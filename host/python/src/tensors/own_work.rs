//! Work of Python's own on a stream, as a kernel of `PyOpenCL` on a tensor's memory: what it waits for, and
//! what waits for it.

use crossdock_api::{Failure, Ref, XdStream, XdTensor};
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::table::api;
use crate::objects::stream::stream_or_current;
use crate::tensors::tensor::Tensor;

#[pymethods]
impl Tensor {
    /// Makes `stream` (by default the current one of the tensor's device) wait for work that writes the
    /// tensor. Call it before you enqueue your own work that reads the tensor, and `used_on` after.
    #[pyo3(signature = (stream=None))]
    fn wait_to_read(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.tell(py, stream, api().tensor_wait_to_read)
    }

    /// Makes `stream` (by default as for `wait_to_read`) wait for all work on the tensor. Call it before
    /// you enqueue your own work that writes the tensor, and `written_on` after.
    #[pyo3(signature = (stream=None))]
    fn wait_to_write(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.tell(py, stream, api().tensor_wait_to_write)
    }

    /// Says that work of your own on `stream` reads the tensor: later writes of it wait for that work, and
    /// its memory outlives it.
    #[pyo3(signature = (stream=None))]
    fn used_on(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.tell(py, stream, api().tensor_used_on)
    }

    /// Says that work of your own on `stream` writes the tensor: later uses of it wait for that work, and
    /// its memory outlives it. `ValueError` for a read-only tensor.
    #[pyo3(signature = (stream=None))]
    fn written_on(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.handle_to_write()?;
        self.tell(py, stream, api().tensor_written_on)
    }
}

impl Tensor {
    fn tell(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        call: extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure,
    ) -> PyResult<()> {
        let stream = stream_or_current(py, self.own_device()?, stream)?;
        let tensor = self.handle();
        Ok(detached(py, || {
            check(call(tensor.lend(), stream.handle.lend()))
        })?)
    }
}
