//! `crossdock.Event`.

use crossdock_api::{Out, XdEvent};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::handle::{Handle, made, written};
use crate::link::table::api;
use crate::link::waiting;
use crate::objects::device::{Device, device_name};
use crate::objects::stream::{limit, stream_or_current};

/// A point in a stream's work, as `Stream.record()` gives it.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
pub(crate) struct Event(Handle<XdEvent>);

impl Event {
    /// The event that `function` was given.
    pub(crate) fn given<'a>(
        function: &str,
        event: &'a Bound<'_, PyAny>,
    ) -> PyResult<&'a Handle<XdEvent>> {
        if let Ok(event) = event.cast::<Self>() {
            return Ok(&event.get().0);
        }
        Err(PyTypeError::new_err(format!(
            "{function} takes a crossdock.Event, not {}: `stream.record()` gives one; for a PyOpenCL queue \
             `xd.Stream(device, native=queue).record()`",
            event.get_type().name()?
        )))
    }

    pub(crate) const fn new(handle: Handle<XdEvent>) -> Self {
        Self(handle)
    }

    fn own_device(&self) -> PyResult<Device> {
        Device::new(made(|out| (api().event_device)(self.0.lend(), out))?)
    }
}

#[pymethods]
impl Event {
    /// The device whose event it is.
    #[getter]
    fn device(&self) -> PyResult<Device> {
        self.own_device()
    }

    /// Makes what comes later on `stream` wait for it (the current stream of its device where there
    /// is none). Whether the CPU waits is as with `Stream.wait`.
    #[pyo3(signature = (stream=None))]
    fn wait(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let stream = stream_or_current(py, self.own_device()?, stream)?;
        let wait = || {
            check((api().stream_wait)(
                stream.handle.lend(),
                self.0.lend(),
                Out::NULL,
            ))
        };
        Ok(detached(py, wait)?)
    }

    /// Waits until it has happened; `DeviceTimeoutError` after `timeout` seconds, `DeviceError` each time
    /// where the work before it failed.
    #[pyo3(signature = (timeout=None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        waiting::wait(py, limit(timeout)?, |limit| {
            check((api().event_synchronize)(self.0.lend(), limit))
        })
    }

    /// Whether it has happened; `DeviceError` each time where the work before it failed.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        let query = || written(|out| (api().event_is_done)(self.0.lend(), out));
        Ok(detached(py, query)? != 0)
    }

    /// Seconds from an earlier event to this one, as the device measured them; both must have
    /// happened. `DeviceError` where `other` happened later, and where no times are measured: by the device,
    /// or by a queue of OpenCL that was made without `PROFILING_ENABLE`.
    fn elapsed_since(&self, other: &Bound<'_, PyAny>) -> PyResult<f64> {
        let earlier = Self::given("elapsed_since", other)?;
        let nanoseconds = written(|out| (api().event_elapsed)(self.0.lend(), earlier.lend(), out))?;
        Ok(std::time::Duration::from_nanos(nanoseconds).as_secs_f64())
    }

    fn __repr__(&self) -> PyResult<String> {
        let device = device_name(self.own_device()?.pair())?;
        Ok(format!("<crossdock.Event on {device}>"))
    }
}
