//! New tensors, and tensors on other devices.

use crossdock_api::{
    CopyMode, MemoryKind, Out, Owned, XdDevice, XdEmptyOptions, XdLayout, XdMoveOptions, XdRoute,
    XdStream,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::interpreter::integers::integers;
use crate::link::handle::{Handle, made};
use crate::link::table::api;
use crate::objects::device::Device;
use crate::objects::dtype::Dtype;
use crate::objects::stream::{current_stream, stream_for};
use crate::objects::target::Target;
use crate::tensors::tensor::Tensor;

const CPU: i32 = 1;

/// What `copy` of the array API asks for.
pub(crate) const fn copy_mode(copy: Option<bool>) -> CopyMode {
    match copy {
        None => CopyMode::IF_NEEDED,
        Some(true) => CopyMode::ALWAYS,
        Some(false) => CopyMode::NEVER,
    }
}

/// The device whose streams a move between two devices is ordered by: the other one, where it goes to
/// the CPU.
pub(crate) fn ordering<'a, 'py>(
    from: &'a Bound<'py, Device>,
    to: &'a Bound<'py, Device>,
) -> &'a Bound<'py, Device> {
    match to.get().pair().device_type {
        CPU => from,
        _ => to,
    }
}

impl Tensor {
    /// The device that holds it.
    pub(crate) fn own_device(&self) -> PyResult<Device> {
        let handle = self.handle();
        Device::new(made(|out| (api().tensor_device)(handle.lend(), out))?)
    }

    /// As [`Tensor::moved`], in the order of a stream where there is one, and the route that was taken.
    pub(crate) fn moved_in_order(
        &self,
        py: Python<'_>,
        target: Option<(&Device, MemoryKind)>,
        copy: CopyMode,
        stream: Option<&Handle<XdStream>>,
        route: Option<&mut Owned<XdRoute>>,
    ) -> PyResult<Self> {
        let handle = self.handle();
        let mut options = XdMoveOptions::new();
        options.copy = copy;
        if let Some(stream) = stream {
            options.stream = stream.lend();
        }
        let own: Handle<XdDevice>;
        let target = match target {
            Some((device, kind)) => {
                options.kind = kind;
                &device.handle
            }
            None => {
                own = made(|out| (api().tensor_device)(handle.lend(), out))?;
                &own
            }
        };
        let moved = detached(py, || {
            made(|out| {
                let taken = route.map_or(Out::NULL, Out::from);
                (api().tensor_to)(handle.lend(), target.lend(), (&options).into(), out, taken)
            })
        });
        Self::new(moved?)
    }
}

#[pymethods]
impl Tensor {
    /// Whether its elements lie compact in C order.
    #[getter]
    fn contiguous(&self) -> PyResult<bool> {
        Ok(self.info()?.contiguous != 0)
    }

    /// Bytes from `data_ptr()` to the first element: not 0 only on devices that have handles.
    #[getter]
    fn byte_offset(&self) -> PyResult<u64> {
        Ok(self.info()?.byte_offset)
    }

    /// The same values on `device`: the same memory where that works, else a copy.
    ///
    /// `"cuda_host:1"`, `"cuda_managed:1"` and `"rocm_host:1"` are pinned and managed memory of device 1: what is
    /// of that kind there already is shared, all else is copied. A device's own name takes memory of any kind
    /// as it is.
    ///
    /// `copy` means what the array API says. With `stream` it is moved in that stream's order;
    /// `non_blocking=True` takes the current one. A stream of another library, and the current one, are
    /// those of `device`, or of the tensor's own device where `device` is the CPU.
    ///
    /// With a stream, a copy returns without waiting, except: a copy through host memory of more than 1 GiB, or
    /// if a device lacks streams, host events or host functions; a copy of a tensor that is not compact, on a
    /// wrapped queue of another `OpenCL` context; and an alias that is adopted or mapped (`copy=True` never takes
    /// one). These wait for work on the stream, without a time limit. If the stream waits for an event that only
    /// this thread can complete, the call deadlocks. `explain` reports whether a call waits. To limit the wait,
    /// call `stream.synchronize(timeout)` first.
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
            Some(device) => Target::from_any(device)?,
            None => Py::new(py, self.own_device()?)?.into(),
        };
        let own = Py::new(py, self.own_device()?)?;
        let ordering = ordering(own.bind(py), target.device.bind(py));
        let stream = match stream {
            Some(stream) => Some(stream_for(ordering.get(), stream)?),
            None if non_blocking => Some(current_stream(ordering)?.get().again()),
            None => None,
        };
        let stream = stream.as_ref().map(|stream| &stream.handle);
        let target = Some((target.device.get(), target.kind));
        self.moved_in_order(py, target, copy_mode(copy), stream, None)
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

/// An uninitialised compact tensor, in memory of this kind, and in the order of a stream if one is given.
#[pyfunction]
pub(crate) fn _empty(
    py: Python<'_>,
    shape: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    device: &Bound<'_, PyAny>,
    kind: Option<&str>,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tensor> {
    let (target, shape) = (Target::from_any(device)?, integers(shape)?);
    let dtype = Dtype::from_any(dtype)?;
    let mut options = XdEmptyOptions::new();
    options.kind = match kind.map(kind_named).transpose()? {
        None => target.kind,
        Some(asked) if target.is_of_a_kind() && asked != target.kind => {
            let name = kind.unwrap_or_default();
            let why = format!("{device} is memory of another kind than {name:?}");
            return Err(PyValueError::new_err(why));
        }
        Some(asked) => asked,
    };
    let device = target.device;
    let stream = stream
        .map(|stream| stream_for(device.get(), stream))
        .transpose()?;
    if let Some(stream) = &stream {
        options.stream = stream.handle.lend();
    }
    let device = &device.get().handle;
    let empty = detached(py, || {
        let layout = XdLayout::compact(dtype.0, &shape);
        made(|out| (api().tensor_empty)(device.lend(), (&layout).into(), (&options).into(), out))
    })?;
    Tensor::new(empty)
}

/// A kind of memory by the name that `pointer_info` has for it.
fn kind_named(name: &str) -> PyResult<MemoryKind> {
    match name {
        "device" => Ok(MemoryKind::DEVICE),
        "pinned" => Ok(MemoryKind::PINNED),
        "managed" => Ok(MemoryKind::MANAGED),
        _ => Err(PyValueError::new_err(format!(
            "kind {name:?} is not 'device', 'pinned' or 'managed'"
        ))),
    }
}
