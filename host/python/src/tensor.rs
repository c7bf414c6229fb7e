//! `crossdock.Tensor`: what it is, views, and moving.
#![expect(unsafe_code, reason = "reads the shape that its handle lends")]

use crossdock_api::{CopyMode, Out, XdMoveOptions, XdRoute, XdTensor, XdTensorInfo};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::Device;
use crate::dtype::Dtype;
use crate::handle::{Handle, made, written};
use crate::table::api;

/// A typed view of memory on one device.
#[pyclass(frozen, module = "crossdock", weakref)]
#[derive(Debug)]
pub(crate) struct Tensor {
    handle: Handle<XdTensor>,
    info: Info,
}

/// What a tensor is. Its arrays live as long as the handle.
#[derive(Debug)]
struct Info(XdTensorInfo);

// SAFETY: the arrays are the handle's, which may be read from every thread.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Tensor {
    pub(crate) fn new(handle: Handle<XdTensor>) -> PyResult<Self> {
        let info = Info(written(|out| (api().tensor_describe)(handle.lend(), out))?);
        Ok(Self { handle, info })
    }

    pub(crate) const fn handle(&self) -> &Handle<XdTensor> {
        &self.handle
    }

    pub(crate) const fn info(&self) -> &XdTensorInfo {
        &self.info.0
    }

    /// The same tensor once more.
    pub(crate) fn share(&self) -> Self {
        Self {
            handle: Handle::new((api().tensor_retain)(self.handle.lend())),
            info: Info(self.info.0),
        }
    }

    fn array(&self, first: *const i64) -> &[i64] {
        if first.is_null() {
            return &[];
        }
        // SAFETY: `ndim` numbers that live as long as the handle, which `self` holds.
        unsafe { std::slice::from_raw_parts(first, self.info().ndim as usize) }
    }

    pub(crate) fn extents(&self) -> &[i64] {
        self.array(self.info().shape)
    }

    pub(crate) fn steps(&self) -> &[i64] {
        self.array(self.info().strides)
    }

    /// Address or handle, and the offset, of the first element.
    pub(crate) const fn data(&self) -> (u64, u64) {
        (self.info.0.data, self.info.0.byte_offset)
    }

    /// The same values on `device` (its own where there is none).
    pub(crate) fn moved(
        &self,
        py: Python<'_>,
        device: Option<&Device>,
        copy: CopyMode,
    ) -> PyResult<Self> {
        let mut options = XdMoveOptions::new();
        options.copy = copy;
        let own: Handle<crossdock_api::XdDevice>;
        let target = match device {
            Some(device) => &device.handle,
            None => {
                own = made(|out| (api().tensor_device)(self.handle.lend(), out))?;
                &own
            }
        };
        let handle = &self.handle;
        let moved = py.detach(|| {
            made(|out| {
                let no_route: Out<'_, crossdock_api::Owned<XdRoute>> = Out::NULL;
                (api().tensor_to)(
                    handle.lend(),
                    target.lend(),
                    (&options).into(),
                    out,
                    no_route,
                )
            })
        })?;
        Self::new(moved)
    }
}

#[pymethods]
impl Tensor {
    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.extents())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.steps())
    }

    /// The dtype.
    #[getter]
    const fn dtype(&self) -> Dtype {
        Dtype(self.info.0.dtype)
    }

    /// The device that holds it.
    #[getter]
    fn device(&self) -> PyResult<Device> {
        Device::new(made(|out| (api().tensor_device)(self.handle.lend(), out))?)
    }

    /// The number of dimensions.
    #[getter]
    const fn ndim(&self) -> u32 {
        self.info.0.ndim
    }

    /// The number of elements.
    #[getter]
    const fn size(&self) -> u64 {
        self.info.0.numel
    }

    /// The bytes of its elements when they lie compact.
    #[getter]
    const fn nbytes(&self) -> u64 {
        self.info.0.nbytes
    }

    /// Whether writing is refused.
    #[getter]
    const fn readonly(&self) -> bool {
        self.info.0.read_only != 0
    }

    /// The address of its first element; a handle on devices that have handles.
    const fn data_ptr(&self) -> u64 {
        self.info.0.data
    }
}
