//! Host memory in: the buffer protocol (PEP 3118), and addresses that a Python object vouches for.
#![expect(unsafe_code, reason = "takes views and addresses of other objects")]

use std::ffi::{CStr, c_void};

use crossdock_api::{DLDataType, DLDevice, MemoryFlags, XdLayout, XdMemory};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::interpreter::calls;
use crate::interpreter::integers::integers;
use crate::managed::py_owner::Held;
use crate::objects::dtype::Dtype;
use crate::objects::format;
use crate::tensors::memory_owner::adopt;
use crate::tensors::tensor::Tensor;

const CPU: DLDevice = DLDevice {
    device_type: 1,
    device_id: 0,
};

/// A view that another object exports; it is given back when it is dropped, which must happen
/// attached to the interpreter.
struct View(Box<ffi::Py_buffer>);

// SAFETY: a view may be read and released on any attached thread.
unsafe impl Send for View {}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer`, and released once.
        unsafe { calls::release_view(&raw mut *self.0) };
    }
}

impl View {
    /// Asks for everything there is to know, and not for writing.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: a live object, and a place of ours.
        let failed = unsafe { calls::view(object.as_ptr(), &raw mut *view, ffi::PyBUF_FULL_RO) };
        if failed != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Self(view))
    }

    fn array(&self, first: *const isize) -> &[isize] {
        match usize::try_from(self.0.ndim) {
            // SAFETY: an exporter gives `ndim` numbers, which live as long as the view.
            Ok(ndim) if !first.is_null() => unsafe { std::slice::from_raw_parts(first, ndim) },
            _ => &[],
        }
    }

    fn format(&self) -> String {
        if self.0.format.is_null() {
            return "B".to_owned();
        }
        // SAFETY: a text that lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.0.format) };
        format.to_string_lossy().into_owned()
    }

    fn itemsize(&self) -> usize {
        usize::try_from(self.0.itemsize).unwrap_or(0)
    }

    /// Shape, and strides in elements.
    fn dims(&self) -> PyResult<(Vec<i64>, Option<Vec<i64>>)> {
        let suboffsets = self.array(self.0.suboffsets);
        if suboffsets.iter().any(|offset| *offset >= 0) {
            return Err(PyBufferError::new_err(
                "its rows are reached through pointers (suboffsets): copy it into one block first",
            ));
        }
        let shape: Vec<i64> = self.array(self.0.shape).iter().map(|n| *n as i64).collect();
        let strides = self.array(self.0.strides);
        if strides.is_empty() {
            return Ok((shape, None));
        }
        let bytes: Vec<i64> = strides.iter().map(|n| *n as i64).collect();
        let strides = elements(&shape, &bytes, self.itemsize())?;
        Ok((shape, Some(strides)))
    }

    /// The tensor of ours whose memory this is a view of, directly or through a `memoryview`.
    fn of_own<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Tensor>>> {
        // SAFETY: the exporter is kept as long as the view, and NULL is none.
        let exporter = unsafe { Bound::from_borrowed_ptr_or_opt(py, self.0.obj) };
        let exporter = match exporter {
            Some(view) if view.is_instance_of::<PyMemoryView>() => Some(view.getattr("obj")?),
            exporter => exporter,
        };
        Ok(exporter.and_then(|exporter| exporter.cast_into().ok()))
    }

    /// Makes a tensor of bytes in it that lie at `offset`.
    fn into_tensor(self, py: Python<'_>, layout: XdLayout<'_>, offset: u64) -> PyResult<Tensor> {
        if let Some(own) = self.of_own(py)? {
            let (own, first) = (own.get(), self.0.buf.addr() as u64);
            let offset = first.wrapping_add(offset).wrapping_sub(own.info()?.data);
            return own.reinterpreted(offset.cast_signed(), layout, self.0.readonly != 0);
        }
        let mut memory = XdMemory::new(CPU, self.0.buf, layout);
        memory.byte_offset = offset;
        if self.0.readonly != 0 {
            memory.flags = MemoryFlags::READ_ONLY;
        }
        // SAFETY: the exporter keeps the memory until the view is released, and the caller has
        // checked that the layout lies in it.
        unsafe { adopt(py, memory, self) }
    }
}

/// Strides of elements from strides of bytes. Those of axes with one index or none mean nothing.
///
/// # Errors
/// `ValueError` where there is not one stride for each axis; `BufferError` for parts of elements.
fn elements(shape: &[i64], bytes: &[i64], itemsize: usize) -> PyResult<Vec<i64>> {
    if shape.len() != bytes.len() {
        return Err(PyValueError::new_err(format!(
            "a shape of {} axes has {} strides",
            shape.len(),
            bytes.len()
        )));
    }
    let size = i64::try_from(itemsize).unwrap_or(0);
    let stride = |(extent, stride): (&i64, &i64)| {
        let whole = stride.checked_div(size).unwrap_or(0);
        if *extent > 1 && Some(*stride) != whole.checked_mul(size) {
            return Err(PyBufferError::new_err(format!(
                "a stride of {stride} bytes is no multiple of {size}-byte elements: copy it first"
            )));
        }
        Ok(whole)
    };
    shape.iter().zip(bytes).map(stride).collect()
}

fn layout_of<'a>(
    dtype: DLDataType,
    shape: &'a [i64],
    strides: Option<&'a [i64]>,
) -> PyResult<XdLayout<'a>> {
    let Some(strides) = strides else {
        return Ok(XdLayout::compact(dtype, shape));
    };
    XdLayout::strided(dtype, shape, strides)
        .ok_or_else(|| PyValueError::new_err("shape and strides have different lengths"))
}

/// A tensor over the memory of an object that has the buffer protocol, without a copy.
///
/// Raises `BufferError` for suboffsets, for a byte order that is not this machine's, and for
/// formats that DLPack has no dtype for.
#[pyfunction]
#[pyo3(signature = (obj, /))]
fn _from_buffer(obj: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let view = View::of(obj)?;
    let dtype = format::dtype_of(&view.format(), view.itemsize())?;
    let (shape, strides) = view.dims()?;
    let layout = layout_of(dtype, &shape, strides.as_deref())?;
    view.into_tensor(obj.py(), layout, 0)
}

/// A compact tensor over some bytes of an object that has the buffer protocol, without a copy.
///
/// Raises `ValueError` where the bytes do not suffice.
#[pyfunction]
#[pyo3(signature = (obj, /, dtype, shape, *, offset=0, padded=false))]
fn _from_bytes(
    obj: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    shape: &Bound<'_, PyAny>,
    offset: u64,
    padded: bool,
) -> PyResult<Tensor> {
    let shape = integers(shape)?;
    let dtype = Dtype::from_any(dtype)?.0;
    let view = View::of(obj)?;
    // SAFETY: filled by its exporter.
    let contiguous = unsafe {
        ffi::PyBuffer_IsContiguous(&raw const *view.0, std::ffi::c_char::from_ne_bytes(*b"C"))
    };
    if contiguous == 0 {
        return Err(PyBufferError::new_err("the bytes do not lie in one block"));
    }
    let bits = u128::from(dtype.bits) * u128::from(dtype.lanes);
    let bits = if padded {
        bits.next_multiple_of(8)
    } else {
        bits
    };
    let mut extents = shape.iter();
    let needs = extents.try_fold(bits, |bits, extent| {
        bits.checked_mul(u128::try_from(*extent).ok()?)
    });
    let needs = needs.map(|bits| bits.div_ceil(8));
    let has = u128::try_from(view.0.len).unwrap_or(0);
    let end = needs.and_then(|needs| needs.checked_add(offset.into()));
    if end.is_none_or(|end| end > has) {
        return Err(PyValueError::new_err(format!(
            "shape {shape:?} at byte {offset} needs more than the {has} bytes that are there"
        )));
    }
    let layout = XdLayout::compact(dtype, &shape);
    let layout = if padded { layout.padded() } else { layout };
    view.into_tensor(obj.py(), layout, offset)
}

/// A tensor over host memory that `owner` keeps valid: `data` is its address and whether it is
/// read-only, which are believed.
///
/// Strides are in bytes; `None` means compact.
#[pyfunction]
#[pyo3(signature = (data, dtype, shape, strides, *, padded, owner))]
fn _from_address(
    data: (usize, bool),
    dtype: &Bound<'_, PyAny>,
    shape: &Bound<'_, PyAny>,
    strides: Option<&Bound<'_, PyAny>>,
    padded: bool,
    owner: &Bound<'_, PyAny>,
) -> PyResult<Tensor> {
    let (shape, strides) = (integers(shape)?, strides.map(integers).transpose()?);
    let dtype = Dtype::from_any(dtype)?;
    let strides = strides.map(|bytes| elements(&shape, &bytes, dtype.itemsize() as usize));
    let strides = strides.transpose()?;
    let layout = layout_of(dtype.0, &shape, strides.as_deref())?;
    let layout = if padded { layout.padded() } else { layout };
    let (address, readonly) = data;
    let data = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let mut memory = XdMemory::new(CPU, data, layout);
    if readonly {
        memory.flags = MemoryFlags::READ_ONLY;
    }
    // SAFETY: what the object says of its memory holds while it is kept, by its protocol.
    unsafe { adopt(owner.py(), memory, Held::new(owner)) }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_little_endian", cfg!(target_endian = "little"))?;
    module.add_function(wrap_pyfunction!(_from_buffer, module)?)?;
    module.add_function(wrap_pyfunction!(_from_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(_from_address, module)?)
}
