//! Native memory objects of other libraries in, and the handle of ours out.
#![expect(unsafe_code, reason = "takes handles that the caller vouches for")]

use std::ffi::c_void;

use crossdock_api::{AddressForm, DLDataType, XdLayout, XdMemory};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

use crate::interpreter::integers::integers;
use crate::link::error::unsupported_device;
use crate::link::table::api;
use crate::managed::py_owner::Held;
use crate::objects::device::{Device, device_name};
use crate::objects::dtype::Dtype;
use crate::objects::stream::Stream;
use crate::tensors::memory_owner::take;
use crate::tensors::tensor::Tensor;

/// A tensor over a native memory object, which `owner` keeps alive: its handle is believed, unless it
/// is to be known here.
///
/// `what` is dtype, shape and the bytes before the first element; `stream` writes the memory.
#[pyfunction]
pub(crate) fn _adopt_native(
    device: &Bound<'_, Device>,
    handle: usize,
    what: (Bound<'_, Dtype>, Bound<'_, PyAny>, u64),
    owner: &Bound<'_, PyAny>,
    stream: Option<&Bound<'_, Stream>>,
    known: bool,
) -> PyResult<Tensor> {
    if known {
        check_known(owner.py(), device.get(), handle)?;
    }
    let (dtype, shape, offset) = what;
    let shape = integers(&shape)?;
    let layout = XdLayout::compact(dtype.get().0, &shape);
    let data = std::ptr::with_exposed_provenance_mut::<c_void>(handle);
    let mut memory = XdMemory::new(device.get().pair(), data, layout);
    memory.byte_offset = offset;
    if let Some(stream) = stream {
        memory.stream = stream.get().handle.lend();
    }
    let adopt = api().tensor_adopt_native;
    // SAFETY: what the caller says of the object holds while the object is kept.
    unsafe { take(owner.py(), adopt, memory, Held::new(owner)) }
}

/// Refuses a handle that the device's plugin has not in its table: a tensor of one byte of it is an
/// import, which believes no handle.
fn check_known(py: Python<'_>, device: &Device, handle: usize) -> PyResult<()> {
    const BYTE: DLDataType = DLDataType {
        code: 1,
        bits: 8,
        lanes: 1,
    };
    let data = std::ptr::with_exposed_provenance_mut::<c_void>(handle);
    let memory = XdMemory::new(device.pair(), data, XdLayout::compact(BYTE, &[1]));
    // SAFETY: the plugin is asked whose it is, and nothing is read.
    let known = unsafe { take(py, api().tensor_from_memory, memory, ()) };
    known.map(drop).map_err(|_unknown| {
        unsupported_device(
            py,
            format!(
                "{handle:#x} is no memory object that is known here: give the object itself \
                 (a pyopencl.Buffer)"
            ),
        )
    })
}

#[pymethods]
impl Tensor {
    /// Its `cl_mem` as an integer, for `pyopencl.MemoryObject.from_int_ptr`; it lives as long as the
    /// tensor, whose first element is `byte_offset` bytes in. Synchronize first, or order your queue
    /// behind the tensor's stream. `AttributeError` for memory that has none.
    #[getter]
    fn cl_mem(&self) -> PyResult<u64> {
        const OPENCL: i32 = 4;
        let info = self.info()?;
        if info.device.device_type == OPENCL && info.form == AddressForm::HANDLE && info.numel > 0 {
            return Ok(info.data);
        }
        Err(PyAttributeError::new_err(format!(
            "a tensor of {} elements on {} has no cl_mem",
            info.numel,
            device_name(info.device)?
        )))
    }
}
