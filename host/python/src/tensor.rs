//! `crossdock.Tensor`: what it is, views, and moving.
#![expect(unsafe_code, reason = "reads the shape that its handle lends")]

use crossdock_api::{
    CopyMode, Out, XdLayout, XdMoveOptions, XdRoute, XdStream, XdTensor, XdTensorInfo,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::Device;
use crate::dtype::Dtype;
use crate::handle::{Handle, made, written};
use crate::runtime::device_from;
use crate::stream::{current_stream, stream_for};
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
        self.moved_on(py, device, copy, None)
    }

    /// The same, in the order of a stream where there is one.
    pub(crate) fn moved_on(
        &self,
        py: Python<'_>,
        device: Option<&Device>,
        copy: CopyMode,
        stream: Option<&Handle<XdStream>>,
    ) -> PyResult<Self> {
        let mut options = XdMoveOptions::new();
        options.copy = copy;
        if let Some(stream) = stream {
            options.stream = stream.lend();
        }
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
    pub(crate) fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.extents())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.steps())
    }

    /// The dtype.
    #[getter]
    pub(crate) const fn dtype(&self) -> Dtype {
        Dtype(self.info.0.dtype)
    }

    /// The device that holds it.
    #[getter]
    pub(crate) fn device(&self) -> PyResult<Device> {
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
    pub(crate) const fn nbytes(&self) -> u64 {
        self.info.0.nbytes
    }

    /// Whether writing is refused.
    #[getter]
    pub(crate) const fn readonly(&self) -> bool {
        self.info.0.read_only != 0
    }

    /// Whether its elements lie compact in C order.
    #[getter]
    const fn contiguous(&self) -> bool {
        self.info.0.contiguous != 0
    }

    /// The address of its first element; a handle on devices that have handles.
    const fn data_ptr(&self) -> u64 {
        self.info.0.data
    }

    /// Bytes from `data_ptr()` to the first element: not 0 only on devices that have handles.
    #[getter]
    const fn byte_offset(&self) -> u64 {
        self.info.0.byte_offset
    }

    /// The same values on `device`: the same memory where that works, else a copy.
    ///
    /// `copy` means what the array API says. With `stream` (of ours or of another library, on the
    /// target device) it is moved in that stream's order, and the CPU does not wait;
    /// `non_blocking=True` takes the current stream of the target device.
    #[pyo3(signature = (device=None, *, stream=None, copy=None, non_blocking=false))]
    fn to(
        &self,
        py: Python<'_>,
        device: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        copy: Option<bool>,
        non_blocking: bool,
    ) -> PyResult<Self> {
        let target = match device {
            Some(device) => device_from(device)?,
            None => Py::new(py, self.device()?)?,
        };
        let mode = match copy {
            None => CopyMode::IF_NEEDED,
            Some(true) => CopyMode::ALWAYS,
            Some(false) => CopyMode::NEVER,
        };
        let stream = match stream {
            Some(stream) => Some(stream_for(target.get(), stream)?),
            None if non_blocking => Some(current_stream(target.bind(py))?.get().share()),
            None => None,
        };
        self.moved_on(py, Some(target.get()), mode, stream.as_ref())
    }

    /// The same as `to(device, stream=stream)`. Array API.
    #[pyo3(signature = (device, /, *, stream=None))]
    fn to_device(
        &self,
        py: Python<'_>,
        device: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        self.to(py, Some(device), stream, None, false)
    }
}

/// An uninitialised compact tensor.
#[pyfunction]
pub(crate) fn _empty(
    shape: Vec<i64>,
    dtype: &Bound<'_, PyAny>,
    device: &Bound<'_, PyAny>,
) -> PyResult<Tensor> {
    let device = device_from(device)?;
    let dtype = Dtype::from_any(dtype)?;
    let layout = XdLayout::compact(dtype.0, &shape);
    let device = &device.get().handle;
    let empty = made(|out| (api().tensor_empty)(device.lend(), (&layout).into(), out))?;
    Tensor::new(empty)
}
