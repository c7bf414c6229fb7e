//! The CUDA array interface, versions 0 to 3, both ways, on CUDA and on `ROCm`.
#![expect(
    unsafe_code,
    reason = "takes addresses from descriptions that callers vouch for"
)]

use std::ffi::c_void;

use crossdock_api::{
    DLDataType, DLDevice, ErrorKind, MemoryFlags, NO_LIMIT, Ref, XdEvent, XdLayout, XdMemory,
    XdStream,
};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyNotImplementedError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::negotiate::HOST;
use crate::dlpack::sign_bits::reject_sign_bits;
use crate::interpreter::calls;
use crate::interpreter::integers::integers;
use crate::interpreter::refusals::{instead, showing, unless_refused};
use crate::link::error::{Failed, check, unsupported_device};
use crate::link::handle::{Handle, made};
use crate::link::process_runtime::{device_of, look_for_all, runtime};
use crate::link::table::api;
use crate::link::waiting;
use crate::managed::py_owner;
use crate::objects::stream_numbers::{self, StreamEntry};
use crate::objects::typestr::{dtype_of, typestr_of};
use crate::tensors::tensor::Tensor;

const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const ROCM: i32 = 10;
const ROCM_HOST: i32 = 11;
const CUDA_MANAGED: i32 = 13;
/// No device of DLPack's.
const NO_DEVICE: DLDevice = DLDevice {
    device_type: 0,
    device_id: 0,
};

#[pymethods]
impl Tensor {
    /// The CUDA array interface, version 3. Work that uses the memory waits for its `stream`, which lives as
    /// long as the tensor.
    ///
    /// On `ROCm`, which PyTorch and hip-python read it on as well, `stream` is a handle, or `None` after a
    /// wait for the work on the memory: no other number means one stream in each version of HIP.
    ///
    /// Raises `AttributeError` on devices other than CUDA and `ROCm`, and for dtypes that it has no name
    /// for (bfloat16, float8): DLPack carries those.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.info()?;
        let reached = [CUDA, CUDA_HOST, CUDA_MANAGED, ROCM, ROCM_HOST];
        if !reached.contains(&info.device.device_type) {
            return Err(PyAttributeError::new_err(
                "__cuda_array_interface__: the tensor is not on a device of CUDA or ROCm",
            ));
        }
        let typestr = typestr_of(info.dtype).ok_or_else(|| {
            PyAttributeError::new_err("__cuda_array_interface__ has no name for the dtype")
        })?;
        let stream = self.exported_on(py)?;
        let described = PyDict::new(py);
        described.set_item("version", 3)?;
        described.set_item("shape", PyTuple::new(py, self.extents()?)?)?;
        described.set_item("typestr", typestr)?;
        described.set_item(
            "data",
            (
                info.data.wrapping_add(info.byte_offset),
                info.read_only != 0,
            ),
        )?;
        let item = i64::from(info.dtype.bits / 8);
        let strides = (info.contiguous == 0)
            .then(|| {
                PyTuple::new(
                    py,
                    self.steps()?.iter().map(|step| step.saturating_mul(item)),
                )
            })
            .transpose()?;
        described.set_item("strides", strides)?;
        described.set_item("stream", stream)?;
        Ok(described)
    }
}

impl Tensor {
    /// The stream on which all work on the tensor is done, as a consumer may write it; `None` where
    /// there is none, or none is left to wait for.
    fn exported_on(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        match stream_numbers::stream_entry(py, self.own_device()?.pair())? {
            StreamEntry::Streamless => Ok(None),
            StreamEntry::Numbered(number, stream) => {
                self.let_wait(&stream)?;
                self.keep_stream(number, stream);
                Ok(Some(number))
            }
            StreamEntry::Unnamed(stream) => {
                self.let_wait(&stream)?;
                // A stream says once that its work failed, and not to this call: an event says it to all.
                let done: Handle<XdEvent> = made(|out| (api().stream_record)(stream.lend(), out))?;
                waiting::wait(py, NO_LIMIT, |limit| {
                    check((api().event_synchronize)(done.lend(), limit))
                })?;
                Ok(None)
            }
        }
    }

    /// Makes a stream wait for the work on the tensor, before work of others that may write it.
    fn let_wait(&self, stream: &Handle<XdStream>) -> PyResult<()> {
        let wait = if self.info()?.read_only == 0 {
            api().tensor_wait_to_write
        } else {
            api().tensor_wait_to_read
        };
        Ok(check(wait(self.handle().lend(), stream.lend()))?)
    }

    /// Makes the content ready behind what is on the stream that a description names.
    fn let_come_after(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        let device = self.own_device()?.pair();
        if !stream_numbers::has_numbers(device) {
            return Ok(());
        }
        // SAFETY: the interface promises a stream that lives as long as its object.
        let stream = unsafe { stream_numbers::of_stream_entry(py, device, number) }?;
        let Some(stream) = stream else {
            return Ok(());
        };
        Ok(check((api().tensor_ready_on)(
            self.handle().lend(),
            stream.lend(),
        ))?)
    }
}

/// Takes an array from any object with `__cuda_array_interface__`, which it keeps alive.
///
/// The result shares the memory. The interface names no device: it is looked up from the address.
///
/// Raises `AttributeError` where `x` has no such interface, and as `from_cuda_array_interface`.
#[pyfunction]
#[pyo3(signature = (x, /))]
pub(crate) fn as_cuda_array(x: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let described = calls::attribute(x, "__cuda_array_interface__")?;
    import(&described, Some(x))
}

/// Takes the array that a CUDA array interface (a dict of version 0 to 3) describes.
///
/// `owner` is kept alive as long as the memory is in use; without one nothing is, and the caller
/// keeps the memory alive. An array with a mask raises `NotImplementedError`, an incomplete or wrong
/// description `TypeError` or `ValueError`, a dtype that no tensor can have `BufferError`, and an
/// address that no GPU recognizes `UnsupportedDeviceError`.
#[pyfunction]
#[pyo3(signature = (desc, owner=None))]
pub(crate) fn from_cuda_array_interface(
    desc: &Bound<'_, PyAny>,
    owner: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tensor> {
    import(desc, owner)
}

/// What a description says.
#[derive(Debug)]
struct Described {
    shape: Vec<i64>,
    /// In bytes.
    strides: Option<Vec<i64>>,
    dtype: DLDataType,
    address: u64,
    is_read_only: bool,
    stream: Option<u64>,
}

fn entry<'py>(described: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !described.contains(name)? {
        return Ok(None);
    }
    Ok(Some(described.get_item(name)?).filter(|value| !value.is_none()))
}

fn required<'py>(described: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    entry(described, name)?.ok_or_else(|| {
        PyValueError::new_err(format!("the CUDA array interface lacks the entry {name:?}"))
    })
}

fn read(described: &Bound<'_, PyAny>) -> PyResult<Described> {
    let version: i64 = required(described, "version")?.extract()?;
    if version < 0 {
        return Err(PyValueError::new_err(format!(
            "version {version} is refused"
        )));
    }
    if entry(described, "mask")?.is_some() {
        return Err(PyNotImplementedError::new_err(
            "an array with a mask is not supported",
        ));
    }
    let typestr: String = required(described, "typestr")?.extract()?;
    if let Some(descr) = entry(described, "descr")? {
        check_descr(&descr, &typestr)?;
    }
    let (address, is_read_only) = address_of(&required(described, "data")?)?;
    let stream = if version >= 3 {
        entry(described, "stream")?
            .map(|stream| stream_of(&stream))
            .transpose()?
    } else {
        None
    };
    Ok(Described {
        shape: integers(&required(described, "shape")?)?,
        strides: entry(described, "strides")?
            .map(|strides| integers(&strides))
            .transpose()?,
        dtype: dtype_of(&typestr)?,
        address,
        is_read_only,
        stream,
    })
}

/// Only the trivial description of a type is the type that `typestr` names.
fn check_descr(descr: &Bound<'_, PyAny>, typestr: &str) -> PyResult<()> {
    let py = descr.py();
    // More fields than one are no type of ours, whatever they are.
    let field: Option<(String, String)> = match unless_refused(py, descr.len())? {
        Some(1) => unless_refused(py, descr.get_item(0).and_then(|field| field.extract()))?,
        _ => None,
    };
    match field {
        Some((name, format)) if name.is_empty() && format == typestr => Ok(()),
        _ => Err(PyBufferError::new_err(
            "a structured type is no dtype of DLPack",
        )),
    }
}

fn address_of(data: &Bound<'_, PyAny>) -> PyResult<(u64, bool)> {
    data.extract().map_err(|error| {
        instead(data.py(), error, |_refused| {
            Ok(showing(data, |data| {
                let why = format!("data is a tuple (address, read-only), not {data}");
                PyTypeError::new_err(why)
            }))
        })
    })
}

fn stream_of(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    match stream.extract::<i64>()? {
        number @ 1.. => Ok(number.unsigned_abs()),
        number => Err(PyValueError::new_err(format!(
            "stream {number} is refused: it is None, 1, 2 or a handle"
        ))),
    }
}

fn import(described: &Bound<'_, PyAny>, owner: Option<&Bound<'_, PyAny>>) -> PyResult<Tensor> {
    let py = described.py();
    if let Some(owner) = owner {
        reject_sign_bits(owner)?;
    }
    let read = read(described)?;
    let is_empty = read.shape.contains(&0);
    let strides = read.strides.as_deref().filter(|_| !is_empty);
    let strides = strides
        .map(|strides| in_elements(&read.shape, strides, read.dtype))
        .transpose()?;
    let layout = match &strides {
        Some(strides) => XdLayout::strided(read.dtype, &read.shape, strides)
            .ok_or_else(|| PyValueError::new_err("strides and shape differ in length"))?,
        None => XdLayout::compact(read.dtype, &read.shape),
    };
    if let Some(view) = view_of_own(owner, &read, layout)? {
        return Ok(view);
    }
    let address = if is_empty { 0 } else { read.address };
    let data: *mut c_void = std::ptr::with_exposed_provenance_mut(usize::try_from(address)?);
    let runtime = runtime(py)?;
    let mut memory = if is_empty {
        XdMemory::new(device_of_empty(py), data, layout)
    } else {
        look_for_all(py, runtime);
        // One question, which says where the memory is and that it is there.
        let mut memory = XdMemory::new(NO_DEVICE, data, layout);
        memory.flags = MemoryFlags::FIND_DEVICE;
        memory
    };
    if read.is_read_only {
        memory.flags.0 |= MemoryFlags::READ_ONLY.0;
    }
    if let Some(owner) = owner {
        memory.owner = py_owner::keep(owner.clone());
        memory.release = Some(py_owner::release);
    }
    let tensor: Result<_, Failed> = made(|out| {
        // SAFETY: the description promises memory that its owner keeps alive; the runtime checks the
        // address against its plugin.
        unsafe { (api().tensor_from_memory)(runtime.lend(), Ref::from(&memory), out) }
    });
    let is_unknown = |failed: &Failed| !is_empty && failed.kind() == ErrorKind::UNKNOWN_DEVICE;
    let tensor = match tensor {
        Err(failed) if is_unknown(&failed) => {
            return Err(not_on_gpu(py, owner, address, &failed.what_and_why()));
        }
        tensor => Tensor::of(tensor?),
    };
    if !is_empty && tensor.info()?.device == HOST {
        return Err(not_on_gpu(py, owner, address, "it belongs to `cpu:0`"));
    }
    if let Some(number) = read.stream.filter(|_| !is_empty) {
        tensor.let_come_after(py, number)?;
    }
    Ok(tensor)
}

/// The description of a tensor of ours, which owns the memory, as a view of that tensor; `None` for other memory.
fn view_of_own(
    owner: Option<&Bound<'_, PyAny>>,
    read: &Described,
    layout: XdLayout<'_>,
) -> PyResult<Option<Tensor>> {
    let Some(own) = owner.and_then(|owner| owner.cast::<Tensor>().ok()) else {
        return Ok(None);
    };
    let (own, py) = (own.get(), own.py());
    let info = own.info()?;
    let first = info.data.wrapping_add(info.byte_offset);
    let offset = read.address.wrapping_sub(first).cast_signed();
    // An owner may keep other memory too.
    let Ok(view) = own.reinterpreted(offset, layout, read.is_read_only) else {
        return Ok(None);
    };
    if let Some(number) = read.stream {
        view.let_come_after(py, number)?;
    }
    Ok(Some(view))
}

/// The error for an address that no GPU recognizes.
#[cold]
fn not_on_gpu(py: Python<'_>, owner: Option<&Bound<'_, PyAny>>, address: u64, why: &str) -> PyErr {
    let claimant = match owner.map(|owner| owner.get_type().fully_qualified_name()) {
        Some(Ok(name)) => format!("`{name}`"),
        Some(Err(error)) => return error,
        None => "the description".to_owned(),
    };
    unsupported_device(
        py,
        format!(
            "{claimant} names {address:#x} in its CUDA array interface, which no GPU here recognizes; \
             it may be host memory: {why}"
        ),
    )
}

/// Where an array without elements lies, which has no address to ask by: the first device of CUDA, or of
/// `ROCm` where there is none of CUDA.
fn device_of_empty(py: Python<'_>) -> DLDevice {
    let first = |device_type| DLDevice {
        device_type,
        device_id: 0,
    };
    let is_here = |device: &DLDevice| device_of(py, *device).is_ok();
    let found = [first(CUDA), first(ROCM)].into_iter().find(is_here);
    found.unwrap_or_else(|| first(CUDA))
}

/// Those of axes with one index mean nothing.
fn in_elements(shape: &[i64], strides: &[i64], dtype: DLDataType) -> PyResult<Vec<i64>> {
    let item = i64::from(dtype.bits / 8);
    let whole = |(axis, bytes): (usize, &i64)| {
        let is_whole = bytes % item == 0 || shape.get(axis) == Some(&1);
        is_whole.then_some(bytes / item).ok_or_else(|| {
            PyBufferError::new_err(format!(
                "a stride of {bytes} bytes is no number of elements"
            ))
        })
    };
    strides.iter().enumerate().map(whole).collect()
}
