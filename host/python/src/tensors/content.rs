//! The elements of a tensor: read, written, as Python values, and as text.
#![expect(unsafe_code, reason = "passes bytes to the function table")]

use crossdock_api::{CopyMode, NO_LIMIT, Ref, XdTensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::interpreter::attached::detached;
use crate::interpreter::calls;
use crate::link::error::check;
use crate::link::handle::Handle;
use crate::link::table::api;
use crate::link::waiting;
use crate::objects::stream::{limit, stream_for, wait_for_work};
use crate::tensors::tensor::Tensor;

impl Tensor {
    /// The value of a 0-d tensor, for conversions to numbers.
    fn only_value<'py>(slf: &Bound<'py, Self>, to: &str) -> PyResult<Bound<'py, PyAny>> {
        let tensor = slf.get();
        if !tensor.extents()?.is_empty() {
            let instead = match to {
                "bool" => "ask `t is not None`, `t.size` or `t[0].item()`",
                _ => "take `.item()` of one element, or `.tolist()`",
            };
            return Err(PyTypeError::new_err(format!(
                "only a 0-d tensor becomes a {to}, and this one has {}: {instead}",
                axes(tensor.extents()?.len())
            )));
        }
        calls::method(slf, "item", None)
    }

    /// Its handle, to write by; the runtime knows of no `copy()`.
    pub(crate) fn handle_to_write(&self) -> PyResult<&Handle<XdTensor>> {
        if self.info()?.read_only == 0 {
            return Ok(self.handle());
        }
        Err(PyValueError::new_err(
            "the tensor is read-only: `t.copy()` gives one that can be written",
        ))
    }
}

/// `1 axis`, `2 axes`.
pub(crate) fn axes(count: usize) -> String {
    match count {
        1 => "1 axis".to_owned(),
        _ => format!("{count} axes"),
    }
}

#[pymethods]
impl Tensor {
    /// Whether elements of less than a byte take whole bytes.
    #[getter]
    fn _padded(&self) -> PyResult<bool> {
        Ok(self.info()?.padded != 0)
    }

    /// Whether the host reaches its memory by address.
    #[getter]
    fn _host_reachable(&self) -> PyResult<bool> {
        self.is_host_reachable()
    }

    /// The elements' bytes, compact in C order.
    fn _bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let size = self.info()?.nbytes;
        PyBytes::new_with(py, usize::try_from(size)?, |bytes| {
            let (handle, bytes) = (self.handle(), &mut *bytes);
            let read = move || {
                let first = bytes.as_mut_ptr().cast();
                // SAFETY: `size` bytes of a fresh object that nobody else has yet.
                check(unsafe { (api().tensor_read)(handle.lend(), first, size) })
            };
            Ok(detached(py, read)?)
        })
    }

    /// Replaces the elements by compact bytes. Bytes of the host cannot follow a stream, so they wait
    /// for the work on it first.
    #[pyo3(signature = (bytes, stream=None))]
    fn _store(
        &self,
        py: Python<'_>,
        bytes: &[u8],
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let stream = stream.map(|stream| stream_for(&self.own_device()?, stream));
        let stream = stream.transpose()?;
        let handle = self.handle_to_write()?;
        if let Some(stream) = &stream {
            wait_for_work(py, &stream.handle, NO_LIMIT)?;
        }
        let store = || {
            let (first, size) = (bytes.as_ptr().cast(), bytes.len() as u64);
            // SAFETY: as many bytes as the slice has, which its object keeps unchanged.
            check(unsafe { (api().tensor_write)(handle.lend(), first, size) })
        };
        Ok(detached(py, store)?)
    }

    /// Repeats the bytes of one element.
    #[pyo3(signature = (element, stream=None))]
    fn _repeat(
        &self,
        py: Python<'_>,
        element: &[u8],
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let stream = stream.map(|stream| stream_for(&self.own_device()?, stream));
        let stream = stream.transpose()?;
        let handle = self.handle_to_write()?;
        let repeat = || {
            let (first, size) = (element.as_ptr().cast(), element.len() as u64);
            let on = stream
                .as_ref()
                .map_or(Ref::NULL, |stream| stream.handle.lend());
            // SAFETY: as many bytes as the slice has, which its object keeps unchanged.
            check(unsafe { (api().tensor_fill)(handle.lend(), first, size, on) })
        };
        Ok(detached(py, repeat)?)
    }

    /// Refuses what cannot be written: before the first of several steps, since the others would be
    /// refused too late. A copy onto itself makes nothing but this check.
    fn _check_writable(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle_to_write()?;
        let copy = || {
            check((api().tensor_copy_from)(
                handle.lend(),
                handle.lend(),
                Ref::NULL,
            ))
        };
        Ok(detached(py, copy)?)
    }

    /// Replaces the elements by those of a tensor of the same shape and dtype.
    fn _copy_from(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        let (handle, other) = (self.handle_to_write()?, other.get().handle());
        let copy = || {
            check((api().tensor_copy_from)(
                handle.lend(),
                other.lend(),
                Ref::NULL,
            ))
        };
        Ok(detached(py, copy)?)
    }

    /// A compact copy on the same device, which is writable.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.moved(py, None, CopyMode::ALWAYS)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy(py)
    }

    #[expect(unused_variables, reason = "a tensor holds no other object")]
    fn __deepcopy__(&self, py: Python<'_>, memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.copy(py)
    }

    /// Replaces every element by a number; in the order of `stream` if one is given. Where the device has
    /// no `"fill"` among its capabilities, or the plugin cannot make this one, it waits first for the
    /// work on the stream, as `to` does.
    #[pyo3(signature = (value, *, stream=None))]
    fn fill<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let fill = ("crossdock._values", "fill");
        calls::function(slf.py(), fill, (slf, value, stream))?;
        Ok(())
    }

    /// Waits until the last work that writes it is done; `DeviceTimeoutError` after `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let handle = self.handle();
        waiting::wait(py, limit(timeout)?, |limit| {
            check((api().tensor_synchronize)(handle.lend(), limit))
        })
    }

    /// The elements as nested lists of Python numbers; a number for a 0-d tensor.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        calls::function(slf.py(), ("crossdock._values", "to_list"), (slf,))
    }

    /// The only element as a Python number; `ValueError` where there are more, or none.
    fn item<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if slf.get().info()?.numel != 1 {
            return Err(PyValueError::new_err(format!(
                "item() is for one element, and this tensor has {}",
                slf.get().info()?.numel
            )));
        }
        calls::function(slf.py(), ("crossdock._values", "only"), (slf,))
    }

    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::only_value(slf, "bool")?.is_truthy()
    }

    fn __int__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let value = Self::only_value(slf, "int")?;
        slf.py().get_type::<pyo3::types::PyInt>().call1((value,))
    }

    fn __float__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let value = Self::only_value(slf, "float")?;
        slf.py().get_type::<pyo3::types::PyFloat>().call1((value,))
    }

    fn __complex__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let value = Self::only_value(slf, "complex")?;
        slf.py()
            .get_type::<pyo3::types::PyComplex>()
            .call1((value,))
    }

    /// Without a format it is `str()`; with one, the value of a 0-d tensor, as NumPy writes it.
    #[pyo3(signature = (format_spec, /))]
    fn __format__<'py>(
        slf: &Bound<'py, Self>,
        format_spec: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if format_spec.is_empty()? {
            return Self::__repr__(slf);
        }
        let value = Self::only_value(slf, "text by a format")?;
        calls::function(slf.py(), ("builtins", "format"), (value, format_spec))
    }

    fn __index__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        const UINT: u8 = 1;
        if slf.get().info()?.dtype.code > UINT {
            return Err(PyTypeError::new_err(
                "only a tensor of integers is an index",
            ));
        }
        let value = Self::only_value(slf, "index")?;
        calls::function(slf.py(), ("operator", "index"), (value,))
    }

    fn __reduce_ex__<'py>(
        slf: &Bound<'py, Self>,
        protocol: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reduce = ("crossdock._memory", "reduce");
        calls::function(slf.py(), reduce, (slf, protocol))
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        calls::function(slf.py(), ("crossdock._show", "show"), (slf,))
    }
}
