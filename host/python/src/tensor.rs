//! `crossdock.Tensor`: what it is, views, and moving.
#![expect(
    unsafe_code,
    reason = "reads the shape that its handle lends, and drops the handle with care"
)]

use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use crossdock_api::{
    AddressForm, CopyMode, DLDataType, DLDevice, MemoryKind, Out, Owned, RouteKind, XdMoveOptions,
    XdRoute, XdTensor, XdTensorInfo,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::capsule::with_error_aside;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::handle::{Handle, made, written};
use crate::interpreter::detached;
use crate::streams::Wanted;
use crate::table::api;

/// A typed view of memory on one device.
#[pyclass(frozen, module = "crossdock", weakref)]
#[derive(Debug)]
pub(crate) struct Tensor {
    handle: ManuallyDrop<Handle<XdTensor>>,
    /// Apart, because many a tensor is only handed on.
    info: OnceLock<Box<Info>>,
}

/// What a tensor is. Its arrays live as long as the handle.
#[derive(Debug)]
struct Info(XdTensorInfo);

/// What is said of no tensor at all.
const NOTHING: XdTensorInfo = XdTensorInfo {
    device: DLDevice {
        device_type: 0,
        device_id: 0,
    },
    dtype: DLDataType {
        code: 0,
        bits: 0,
        lanes: 0,
    },
    ndim: 0,
    shape: std::ptr::null(),
    strides: std::ptr::null(),
    numel: 0,
    nbytes: 0,
    data: 0,
    byte_offset: 0,
    form: AddressForm::POINTER,
    memory_kind: MemoryKind::UNOWNED,
    read_only: 1,
    contiguous: 0,
    padded: 0,
    reserved: 0,
};

// SAFETY: the arrays are the handle's, which may be read from every thread.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Tensor {
    /// What the handle holds; it is described when somebody asks.
    pub(crate) const fn of(handle: Handle<XdTensor>) -> Self {
        Self {
            handle: ManuallyDrop::new(handle),
            info: OnceLock::new(),
        }
    }

    /// As [`Tensor::of`], described at once.
    pub(crate) fn new(handle: Handle<XdTensor>) -> PyResult<Self> {
        let info = Info(written(|out| (api().tensor_describe)(handle.lend(), out))?);
        let tensor = Self::of(handle);
        tensor.info.get_or_init(|| Box::new(info));
        Ok(tensor)
    }

    pub(crate) fn handle(&self) -> &Handle<XdTensor> {
        &self.handle
    }

    pub(crate) fn info(&self) -> &XdTensorInfo {
        let describe = || {
            let described = written(|out| (api().tensor_describe)(self.handle.lend(), out));
            // It fails for a NULL handle only.
            Box::new(Info(described.unwrap_or(NOTHING)))
        };
        &self.info.get_or_init(describe).0
    }

    /// The same tensor once more.
    pub(crate) fn share(&self) -> Self {
        Self::of(Handle::new((api().tensor_retain)(self.handle.lend())))
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

    /// The same values on `device` (its own where there is none).
    pub(crate) fn moved(
        &self,
        py: Python<'_>,
        device: Option<&Device>,
        copy: CopyMode,
    ) -> PyResult<Self> {
        let (moved, _is_copied) = self.moved_on(py, device, copy, &Wanted::Ready)?;
        Ok(moved)
    }

    /// As [`Tensor::moved`], in the order of a consumer's stream, and whether the memory is new.
    pub(crate) fn moved_on(
        &self,
        py: Python<'_>,
        device: Option<&Device>,
        copy: CopyMode,
        order: &Wanted,
    ) -> PyResult<(Self, bool)> {
        let mut options = XdMoveOptions::new();
        options.copy = copy;
        if let Wanted::On(stream) = order {
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
        let mut route: Owned<XdRoute> = Owned::NULL;
        let moved = detached(py, || {
            made(|out| {
                let taken = Out::from(&mut route);
                (api().tensor_to)(handle.lend(), target.lend(), (&options).into(), out, taken)
            })
        });
        let route = Handle::new(route);
        // An alias may have another address on its device, so addresses do not tell.
        let is_alias = (api().route_kind)(route.lend()) == RouteKind::ALIAS;
        Ok((Self::new(moved?)?, copy == CopyMode::ALWAYS || !is_alias))
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
        PyTuple::new(py, self.extents())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.steps())
    }

    /// The dtype.
    #[getter]
    fn dtype(&self) -> Dtype {
        Dtype(self.info().dtype)
    }

    /// The device that holds it.
    #[getter]
    fn device(&self) -> PyResult<Device> {
        Device::new(made(|out| (api().tensor_device)(self.handle.lend(), out))?)
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> u32 {
        self.info().ndim
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> u64 {
        self.info().numel
    }

    /// The bytes of its elements when they lie compact.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info().nbytes
    }

    /// Whether writing is refused.
    #[getter]
    fn readonly(&self) -> bool {
        self.info().read_only != 0
    }

    /// The address of its first element; a handle on devices that have handles.
    fn data_ptr(&self) -> u64 {
        self.info().data
    }
}
