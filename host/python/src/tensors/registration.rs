//! `crossdock.Registration`: host memory that is locked for a device.

use std::sync::{Mutex, PoisonError};

use crossdock_api::XdRegistration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interpreter::attached::detached;
use crate::link::handle::{Handle, made};
use crate::link::table::api;
use crate::objects::device_name::device_from;
use crate::tensors::tensor::Tensor;

/// Host memory that is locked for a device, as `Tensor.register` gives it: until `close()`, or the end of
/// a `with` block. It keeps the memory.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
struct Registration(Mutex<Option<Handle<XdRegistration>>>);

#[pymethods]
impl Registration {
    /// Ends it: the memory is unlocked once no work uses it, for which this does not wait. Where the device is
    /// lost, or another one that used the memory, it stays locked and is never given back. Later calls do
    /// nothing.
    fn close(&self, py: Python<'_>) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = place.take();
        drop(place);
        detached(py, || drop(ended));
    }

    /// Whether it has ended.
    #[getter]
    fn closed(&self) -> bool {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.is_none()
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

#[pymethods]
impl Tensor {
    /// Locks the host memory that this is a view of, all of it, for `device`: copies between the two are
    /// fast then, and one on a stream returns before it is made. The memory stays where it is, and may be
    /// read-only. `with tensor.register("cuda:0"):` does it for a block.
    ///
    /// `DeviceError` where the host does not reach the memory, the device locks none, or it is locked
    /// for the device already.
    fn register(&self, py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<Registration> {
        let device = device_from(device)?;
        let (tensor, device) = (self.handle(), &device.get().handle);
        let register = || made(|out| (api().tensor_register)(tensor.lend(), device.lend(), out));
        Ok(Registration(Mutex::new(Some(detached(py, register)?))))
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Registration>()
}
