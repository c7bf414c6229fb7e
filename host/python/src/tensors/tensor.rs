//! `crossdock.Tensor`: what it is, views, and moving.
#![expect(
    unsafe_code,
    reason = "reads the shape that its handle lends, and drops the handle with care"
)]

use std::mem::ManuallyDrop;
use std::sync::{Mutex, OnceLock, PoisonError};

use crossdock_api::{
    CopyMode, MemoryKind, Owned, RouteKind, XdRoute, XdStream, XdTensor, XdTensorInfo,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::link::handle::{Handle, written};
use crate::link::table::api;
use crate::managed::capsule::with_error_aside;
use crate::objects::device::Device;
use crate::objects::dtype::Dtype;
use crate::objects::numpy_dispatch::NumpyDispatch;
use crate::objects::stream_numbers::Wanted;
use crate::objects::target::Target;

/// A typed view of memory on one device.
#[pyclass(frozen, module = "crossdock", weakref)]
#[derive(Debug)]
pub(crate) struct Tensor {
    handle: ManuallyDrop<Handle<XdTensor>>,
    /// Apart, because many a tensor is only handed on.
    info: OnceLock<Box<Info>>,
    /// The streams that descriptions of the tensor name. A reader of one may use its stream while the tensor lives.
    named_streams: Mutex<Vec<(u64, Handle<XdStream>)>>,
}

/// What a tensor is. Its arrays live as long as the handle.
#[derive(Debug)]
struct Info(XdTensorInfo);

// SAFETY: the arrays are the handle's, which may be read from every thread.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Tensor {
    /// What the handle holds; it is described when somebody asks.
    pub(crate) fn of(handle: Handle<XdTensor>) -> Self {
        Self {
            handle: ManuallyDrop::new(handle),
            info: OnceLock::new(),
            named_streams: Mutex::default(),
        }
    }

    /// Keeps a stream that a description of the tensor names by `number`.
    pub(crate) fn keep_stream(&self, number: u64, stream: Handle<XdStream>) {
        let named = self.named_streams.lock();
        let mut named = named.unwrap_or_else(PoisonError::into_inner);
        if !named.iter().any(|(known, _)| *known == number) {
            named.push((number, stream));
        }
    }

    /// As [`Tensor::of`], described at once.
    pub(crate) fn new(handle: Handle<XdTensor>) -> PyResult<Self> {
        let tensor = Self::of(handle);
        tensor.info()?;
        Ok(tensor)
    }

    /// The runtime's tensor.
    #[inline]
    pub(crate) fn handle(&self) -> &Handle<XdTensor> {
        &self.handle
    }

    /// What the tensor is.
    ///
    /// # Errors
    /// What `xd_tensor_describe` answers.
    #[inline]
    pub(crate) fn info(&self) -> PyResult<&XdTensorInfo> {
        match self.info.get() {
            Some(info) => Ok(&info.0),
            None => self.describe(),
        }
    }

    #[cold]
    fn describe(&self) -> PyResult<&XdTensorInfo> {
        let handle = self.handle();
        let described = written(|out| (api().tensor_describe)(handle.lend(), out))?;
        Ok(&self.info.get_or_init(|| Box::new(Info(described))).0)
    }

    /// The same tensor once more.
    pub(crate) fn share(&self) -> PyResult<Self> {
        let handle = self.handle();
        Ok(Self::of(Handle::new((api().tensor_retain)(handle.lend()))))
    }

    fn array(&self, of: impl FnOnce(&XdTensorInfo) -> *const i64) -> PyResult<&[i64]> {
        let info = self.info()?;
        let first = of(info);
        if first.is_null() {
            return Ok(&[]);
        }
        // SAFETY: `ndim` numbers that live as long as the handle, which `self` holds.
        Ok(unsafe { std::slice::from_raw_parts(first, info.ndim as usize) })
    }

    pub(crate) fn extents(&self) -> PyResult<&[i64]> {
        self.array(|info| info.shape)
    }

    pub(crate) fn steps(&self) -> PyResult<&[i64]> {
        self.array(|info| info.strides)
    }

    /// The same values where `target` says (on its own device where there is none).
    pub(crate) fn moved(
        &self,
        py: Python<'_>,
        target: Option<&Target>,
        copy: CopyMode,
    ) -> PyResult<Self> {
        let target = target.map(|target| (target.device.get(), target.kind));
        self.moved_in_order(py, target, copy, None, None)
    }

    /// As [`Tensor::moved`], in the order of a consumer's stream, and whether the memory is new.
    pub(crate) fn moved_on(
        &self,
        py: Python<'_>,
        target: Option<(&Device, MemoryKind)>,
        copy: CopyMode,
        order: &Wanted,
    ) -> PyResult<(Self, bool)> {
        let stream = match order {
            Wanted::On(stream) => Some(stream),
            Wanted::Ready | Wanted::Unordered => None,
        };
        let mut route: Owned<XdRoute> = Owned::NULL;
        let moved = self.moved_in_order(py, target, copy, stream, Some(&mut route));
        let route = Handle::new(route);
        // An alias may have another address on its device, so addresses do not tell.
        let is_alias = (api().route_kind)(route.lend()) == RouteKind::ALIAS;
        Ok((moved?, copy == CopyMode::ALWAYS || !is_alias))
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        let release = || {
            // SAFETY: dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.handle) };
        };
        with_error_aside(release);
    }
}

#[pymethods]
impl Tensor {
    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.extents()?)
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.steps()?)
    }

    /// The dtype.
    #[getter]
    fn dtype(&self) -> PyResult<Dtype> {
        Ok(Dtype(self.info()?.dtype))
    }

    /// NumPy's dtype of the elements, for NumPy since 2.4. An `AttributeError` if NumPy has none.
    #[getter]
    fn __numpy_dtype__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.dtype()?.dtype(py)
    }

    /// The same for NumPy before 2.4.
    #[classattr]
    fn __array_function__(py: Python<'_>) -> PyResult<Py<NumpyDispatch>> {
        Py::new(py, NumpyDispatch)
    }

    /// The device that holds it.
    #[getter]
    fn device(&self) -> PyResult<Device> {
        self.own_device()
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> PyResult<u32> {
        Ok(self.info()?.ndim)
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.info()?.numel)
    }

    /// The bytes of its elements when they lie compact.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.info()?.nbytes)
    }

    /// Whether writing is refused.
    #[getter]
    fn readonly(&self) -> PyResult<bool> {
        Ok(self.info()?.read_only != 0)
    }

    /// The address of its first element; a handle on devices that have handles.
    fn data_ptr(&self) -> PyResult<u64> {
        Ok(self.info()?.data)
    }
}
