//! Host memory out: the buffer protocol (PEP 3118), `__array_interface__` and `__array__`.
#![expect(unsafe_code, reason = "fills views for other objects")]

use std::ffi::{c_int, c_void};

use crossdock_api::{AddressForm, MemoryKind, NO_LIMIT};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::interpreter::attached::detached;
use crate::interpreter::calls;
use crate::link::error::check;
use crate::link::table::api;
use crate::objects::device::device_name;
use crate::objects::dtype::Dtype;
use crate::objects::format;
use crate::tensors::tensor::Tensor;

/// Shape and strides in bytes, kept while a view is out.
struct Lent {
    shape: Vec<isize>,
    strides: Vec<isize>,
}

/// Where a tensor without elements says that it is.
static NOWHERE: [u64; 2] = [0; 2];

impl Tensor {
    /// Whether the host reaches its memory by address.
    pub(crate) fn is_host_reachable(&self) -> PyResult<bool> {
        let info = self.info()?;
        let host_kinds = [MemoryKind::HOST, MemoryKind::PINNED, MemoryKind::MANAGED];
        let is_host = info.device.device_type == 1 || host_kinds.contains(&info.memory_kind);
        Ok(info.form == AddressForm::POINTER && (is_host || info.numel == 0))
    }

    fn is_read_only(&self) -> PyResult<bool> {
        Ok(self.info()?.read_only != 0)
    }

    /// Why the host cannot reach it, and what to do.
    pub(crate) fn unreachable_text(&self) -> PyResult<String> {
        let device = device_name(self.info()?.device)?;
        Ok(format!(
            "the tensor is on {device}, which the host does not reach: use `.to(\"cpu\")` first"
        ))
    }

    /// Bytes of one element; a whole one for padded elements.
    pub(crate) fn itemsize(&self) -> PyResult<isize> {
        let dtype = self.info()?.dtype;
        let bits = u32::from(dtype.bits) * u32::from(dtype.lanes);
        Ok(isize::try_from(bits.div_ceil(8)).unwrap_or(0))
    }

    /// The address of its first element, when the work that writes it is done.
    fn settled_address(&self, py: Python<'_>) -> PyResult<*mut c_void> {
        let handle = self.handle();
        detached(py, || {
            check((api().tensor_synchronize)(handle.lend(), NO_LIMIT))
        })?;
        let address = match self.info()?.numel {
            0 => (&raw const NOWHERE).expose_provenance(),
            _ => usize::try_from(self.info()?.data).unwrap_or(0),
        };
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    fn strides_in_bytes(&self) -> PyResult<Vec<isize>> {
        let size = self.itemsize()?;
        let bytes = |stride: &i64| isize::try_from(*stride).unwrap_or(0).wrapping_mul(size);
        Ok(self.steps()?.iter().map(bytes).collect())
    }

    /// Whether its elements lie compact in the order of these axes, from the innermost outwards.
    fn lies_compact<'a>(&self, axes: impl Iterator<Item = (&'a i64, &'a i64)>) -> PyResult<bool> {
        let mut expected = 1_i64;
        let mut axes = axes.filter(|(extent, _)| **extent != 1);
        let is_empty = self.info()?.numel == 0;
        Ok(is_empty
            || axes.all(|(extent, stride)| {
                let fits = *stride == expected;
                expected = expected.saturating_mul(*extent);
                fits
            }))
    }

    fn is_c_contiguous(&self) -> PyResult<bool> {
        self.lies_compact(self.extents()?.iter().zip(self.steps()?).rev())
    }

    fn is_f_contiguous(&self) -> PyResult<bool> {
        self.lies_compact(self.extents()?.iter().zip(self.steps()?))
    }

    /// Why a request cannot be met.
    fn refusal(&self, flags: c_int) -> PyResult<Option<&'static str>> {
        let asks = |flag: c_int| flags & flag == flag;
        let (c_order, f_order) = (self.is_c_contiguous()?, self.is_f_contiguous()?);
        Ok(if asks(ffi::PyBUF_WRITABLE) && self.is_read_only()? {
            Some("the tensor is read-only, and a writable view was asked for")
        } else if asks(ffi::PyBUF_C_CONTIGUOUS) && !c_order {
            Some("the tensor is not contiguous in C order")
        } else if asks(ffi::PyBUF_F_CONTIGUOUS) && !f_order {
            Some("the tensor is not contiguous in Fortran order")
        } else if asks(ffi::PyBUF_ANY_CONTIGUOUS) && !c_order && !f_order {
            Some("the tensor is not contiguous")
        } else if !asks(ffi::PyBUF_STRIDES) && !c_order {
            Some("the tensor is not contiguous, and a view without strides was asked for")
        } else {
            None
        })
    }

    /// The view that `flags` ask for; nothing of it is owned by the tensor but the arrays.
    fn view(&self, py: Python<'_>, flags: c_int) -> PyResult<ffi::Py_buffer> {
        if !self.is_host_reachable()? {
            return Err(PyBufferError::new_err(self.unreachable_text()?));
        }
        let Some(format) = format::format_of(self.info()?.dtype) else {
            return Err(PyBufferError::new_err(format!(
                "{} has no format in the buffer protocol: use `.numpy()` or `.raw()`",
                Dtype(self.info()?.dtype).name()?
            )));
        };
        if let Some(why) = self.refusal(flags)? {
            return Err(PyBufferError::new_err(why));
        }
        let mut view = ffi::Py_buffer::new();
        view.buf = self.settled_address(py)?;
        view.len = isize::try_from(self.info()?.nbytes).unwrap_or(0);
        view.itemsize = self.itemsize()?;
        view.readonly = self.is_read_only()?.into();
        if flags & ffi::PyBUF_FORMAT != 0 {
            view.format = format.as_ptr().cast_mut();
        }
        let shape = self.extents()?.iter();
        let mut lent = Box::new(Lent {
            shape: shape.map(|n| isize::try_from(*n).unwrap_or(0)).collect(),
            strides: self.strides_in_bytes()?,
        });
        view.ndim = c_int::try_from(lent.shape.len()).unwrap_or(0);
        if flags & ffi::PyBUF_ND != 0 && view.ndim > 0 {
            view.shape = lent.shape.as_mut_ptr();
        }
        if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES && view.ndim > 0 {
            view.strides = lent.strides.as_mut_ptr();
        }
        if flags & ffi::PyBUF_ND == 0 {
            // A view without a shape is a row of bytes.
            view.ndim = 1;
        }
        view.internal = Box::into_raw(lent).cast();
        Ok(view)
    }
}

#[pymethods]
impl Tensor {
    /// The buffer protocol: a view of host memory, for dtypes that have a format. PEP 3118.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("a view needs a place"));
        }
        // SAFETY: a place of the caller's; a refused request leaves no object in it.
        unsafe { (*view).obj = std::ptr::null_mut() };
        let mut filled = slf.get().view(slf.py(), flags)?;
        filled.obj = slf.into_ptr();
        // SAFETY: as above.
        unsafe { view.write(filled) };
        Ok(())
    }

    /// The end of a view.
    #[expect(clippy::unused_self, reason = "the protocol passes the exporter")]
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: a view that `__getbuffer__` filled.
        let lent = unsafe { (*view).internal };
        // SAFETY: its box, which is given back once.
        drop(unsafe { Box::from_raw(lent.cast::<Lent>()) });
    }

    /// The array interface, version 3. `AttributeError` where the host does not reach the memory,
    /// or the dtype has no type text.
    #[getter]
    fn __array_interface__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let (py, tensor) = (slf.py(), slf.get());
        if !tensor.is_host_reachable()? {
            return Err(PyAttributeError::new_err(tensor.unreachable_text()?));
        }
        let Some(typestr) = format::type_text(tensor.info()?.dtype) else {
            return Err(PyAttributeError::new_err(format!(
                "{} has no type text in the array interface: use `.numpy()`",
                Dtype(tensor.info()?.dtype).name()?
            )));
        };
        let address = tensor.settled_address(py)?.expose_provenance();
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, tensor.extents()?)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (address, tensor.is_read_only()?))?;
        let strides = match tensor.is_c_contiguous()? {
            true => None,
            false => Some(PyTuple::new(py, tensor.strides_in_bytes()?)?),
        };
        interface.set_item("strides", strides)?;
        Ok(interface)
    }

    /// A NumPy array of the same memory, for `numpy.asarray`; `TypeError` for device tensors.
    ///
    /// `dtype` converts, and `copy` means what NumPy 2 says.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = ("crossdock._numpy", "array");
        calls::function(slf.py(), array, (slf, dtype, copy))
    }

    /// A NumPy array of the same memory; packed elements of less than a byte are unpacked into a
    /// copy. dtypes that NumPy lacks are those of `ml_dtypes`.
    ///
    /// Raises `TypeError` where the host does not reach the memory.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        calls::function(slf.py(), ("crossdock._numpy", "array"), (slf,))
    }
}
