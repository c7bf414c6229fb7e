//! `crossdock.trace`: what hooks, copies and routes did, in a file for Perfetto.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::handle::c_text;
use crate::link::table::api;

/// Writes a Chrome/Perfetto trace of every hook call, copy and route into a file while the `with`
/// block runs. One trace at a time: a second one raises `ValueError`.
#[pyclass(frozen, name = "trace", module = "crossdock")]
#[derive(Debug)]
struct Trace(PathBuf);

#[pymethods]
impl Trace {
    #[new]
    const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let path = c_text(&slf.get().0.to_string_lossy())?;
        detached(slf.py(), || {
            check((api().trace_start)(path.as_c_str().into()))
        })?;
        Ok(slf.clone())
    }

    #[expect(clippy::unused_self, reason = "there is one trace a process")]
    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        Ok(detached(py, || check((api().trace_stop)()))?)
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trace>()
}
