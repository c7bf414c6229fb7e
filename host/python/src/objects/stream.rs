//! `crossdock.Stream`, and which one is current.
#![expect(unsafe_code, reason = "wraps streams that other libraries made")]

use std::time::Instant;

use crossdock_api::{NO_LIMIT, Out, Status, XdEvent, XdStream};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyTuple};

use crate::interpreter::attached::detached;
use crate::interpreter::calls;
use crate::interpreter::refusals::{is_refusal, showing};
use crate::link::error::check;
use crate::link::handle::{Handle, made, written};
use crate::link::table::api;
use crate::link::waiting::{self, left};
use crate::managed::capsule::with_error_aside;
use crate::objects::busy_streams::{Name, give_back_when_done};
use crate::objects::device::Device;
use crate::objects::device_name::device_from;
use crate::objects::event::Event;
use crate::objects::stream_numbers;

/// The streams that `with` made current, innermost last: a context variable with a tuple.
static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An ordered queue of work on one device.
///
/// `native` is a stream of another library: on `cuda` and `rocm` its integer, or an object with
/// `__cuda_stream__()`, `.ptr` or `.cuda_stream`; on OpenCL a command queue of PyOpenCL; anywhere the
/// integer of a stream that is alive here. It is kept alive, also until its work is done, and never
/// destroyed here. `with stream:` makes it the current one of its device, in this context.
#[pyclass(frozen, module = "crossdock", weakref)]
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) handle: Handle<XdStream>,
    /// What keeps a stream of another library alive, and the stream's name; nothing for an integer.
    native: Option<(Name, Py<PyAny>)>,
}

impl Stream {
    /// A stream of another library.
    pub(crate) fn wrap(device: &Device, native: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, word, pair) = (native.py(), native_word(native)?, device.pair());
        let is_believed = stream_numbers::has_numbers(pair) || is_command_queue(native)?;
        let handle = match is_believed {
            // SAFETY: the vendor's protocols vouch for their numbers, and PyOpenCL for its queues; the
            // object is kept as long as this one.
            true => made(|out| unsafe { (api().stream_wrap)(device.handle.lend(), word, out) })?,
            false => {
                stream_numbers::known(py, pair, word)?.ok_or_else(|| unknown(device, native))?
            }
        };
        let keeps = !native.is_instance_of::<PyInt>();
        Ok(Self {
            handle,
            native: keeps.then(|| {
                (
                    (pair.device_type, pair.device_id, word),
                    native.clone().unbind(),
                )
            }),
        })
    }

    fn own_device(&self) -> PyResult<Device> {
        Device::new(made(|out| (api().stream_device)(self.handle.lend(), out))?)
    }
}

/// Nanoseconds of a limit in seconds; `None` is no limit.
pub(crate) fn limit(timeout: Option<f64>) -> PyResult<u64> {
    let Some(seconds) = timeout else {
        return Ok(NO_LIMIT);
    };
    let limit = std::time::Duration::try_from_secs_f64(seconds).map_err(|_error| {
        PyValueError::new_err(format!(
            "timeout is a number of seconds, or None for no limit, not {seconds}"
        ))
    })?;
    Ok(u64::try_from(limit.as_nanos()).unwrap_or(NO_LIMIT))
}

/// Waits for the work that is on a stream now, for a call that cannot follow it. By an event, which tells
/// of a failure each time: the stream tells once, and that is for its own users.
pub(crate) fn wait_for_work(py: Python<'_>, stream: &Handle<XdStream>, limit: u64) -> PyResult<()> {
    let record = || made(|out| (api().stream_record)(stream.lend(), out));
    let end: Handle<XdEvent> = detached(py, record)?;
    waiting::wait(py, limit, |limit| {
        check((api().event_synchronize)(end.lend(), limit))
    })
}

/// Whether it is PyOpenCL's own: any object may have an `int_ptr`, and what is no queue crashes drivers.
fn is_command_queue(native: &Bound<'_, PyAny>) -> PyResult<bool> {
    let modules = native.py().import("sys")?.getattr("modules")?;
    let Ok(module) = modules.get_item("pyopencl") else {
        return Ok(false);
    };
    match calls::attribute(&module, "CommandQueue") {
        Ok(class) => native.get_type().is_subclass(&class),
        Err(_) => Ok(false),
    }
}

#[cold]
fn unknown(device: &Device, native: &Bound<'_, PyAny>) -> PyErr {
    showing(native, |native| {
        PyValueError::new_err(format!(
            "{native} is no stream that is known on {}: give the other library's own object (a \
             pyopencl.CommandQueue), or the handle of a stream that was made or given here",
            device.text()
        ))
    })
}

/// The integer of a stream of another library.
fn native_word(native: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = native.py();
    match native.extract::<u64>() {
        Ok(word) if !native.is_instance_of::<PyBool>() => return Ok(word),
        Err(error) if !is_refusal(py, &error) => return Err(error),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            return Err(showing(native, |native| {
                PyTypeError::new_err(format!("{native} is no handle of a stream"))
            }));
        }
        _ => {}
    }
    if let Some(method) = calls::attribute_if_any(native, "__cuda_stream__")? {
        // The CUDA stream protocol: a version, and the handle.
        let answer = if method.is_callable() {
            calls::call(&method, PyTuple::empty(py), None)?
        } else {
            method
        };
        let (version, word) = answer.extract::<(u64, u64)>()?;
        if version != 0 {
            return Err(PyTypeError::new_err(format!(
                "__cuda_stream__ has version {version}, and version 0 is known"
            )));
        }
        return Ok(word);
    }
    for name in ["ptr", "cuda_stream", "int_ptr"] {
        if let Some(word) = calls::attribute_if_any(native, name)? {
            return word.extract();
        }
    }
    if native.is_instance_of::<Stream>() {
        return Err(PyTypeError::new_err(
            "native= is for another library's stream, and this is a crossdock stream already: use \
             it as it is",
        ));
    }
    Err(PyTypeError::new_err(format!(
        "{} is no stream: give a crossdock.Stream, a pyopencl.CommandQueue, an object with \
         __cuda_stream__ or ptr, or an integer",
        native.get_type().name()?
    )))
}

/// A stream of ours as it is, or one of another library on `device`.
pub(crate) fn stream_for(device: &Device, stream: &Bound<'_, PyAny>) -> PyResult<Stream> {
    match stream.cast::<Stream>() {
        Ok(own) => Ok(own.get().again()),
        Err(_) => Stream::wrap(device, stream),
    }
}

/// The same, or where none is given the current stream of `device`.
pub(crate) fn stream_or_current(
    py: Python<'_>,
    device: Device,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    if let Some(stream) = stream {
        return stream_for(&device, stream);
    }
    let device = Bound::new(py, device)?;
    Ok(current_stream(device.as_any())?.get().again())
}

impl Stream {
    pub(crate) fn share(&self) -> Handle<XdStream> {
        Handle::new((api().stream_retain)(self.handle.lend()))
    }

    /// The same for a call, during which this one is held.
    pub(crate) fn again(&self) -> Self {
        Self {
            handle: self.share(),
            native: None,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some((name, native)) = self.native.take() {
            with_error_aside(|| give_back_when_done(name, self.share(), native));
        }
    }
}

/// The context variable.
fn variable<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    let make = || -> PyResult<Py<PyAny>> {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        let default = [("default", PyTuple::empty(py))];
        let keywords = pyo3::types::IntoPyDict::into_py_dict(default, py)?;
        let made = class.call(("crossdock.current_streams",), Some(&keywords))?;
        Ok(made.unbind())
    };
    Ok(CURRENT.get_or_try_init(py, make)?.bind(py))
}

fn entered<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
    Ok(variable(py)?.call_method0("get")?.cast_into::<PyTuple>()?)
}

/// The stream of a device that `with` made current here, else the device's default stream.
#[pyfunction]
pub(crate) fn current_stream<'py>(device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Stream>> {
    let py = device.py();
    let device = device_from(device)?;
    for stream in entered(py)?.iter().rev() {
        let stream = stream.cast_into::<Stream>()?;
        let own = stream.get().own_device()?;
        if (api().device_equal)(own.handle.lend(), device.get().handle.lend()) != 0 {
            return Ok(stream);
        }
    }
    let default = made(|out| (api().stream_default)(device.get().handle.lend(), out))?;
    let default = Stream {
        handle: default,
        native: None,
    };
    Bound::new(py, default)
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (device, *, native=None))]
    fn new(device: &Bound<'_, PyAny>, native: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let py = device.py();
        let device = device_from(device)?;
        if let Some(native) = native {
            return Self::wrap(device.get(), native);
        }
        let device = device.get();
        let create = || made(|out| (api().stream_create)(device.handle.lend(), out));
        Ok(Self {
            handle: detached(py, create)?,
            native: None,
        })
    }

    /// The device whose work it orders.
    #[getter]
    fn device(&self) -> PyResult<Device> {
        self.own_device()
    }

    /// The integer that the vendor's API uses for it.
    #[getter]
    fn native_handle(&self) -> PyResult<u64> {
        Ok(written(|out| {
            (api().stream_native_handle)(self.handle.lend(), out)
        })?)
    }

    /// An event at the present end of its work.
    fn record(&self, py: Python<'_>) -> PyResult<Event> {
        let record = || made(|out| (api().stream_record)(self.handle.lend(), out));
        Ok(Event::new(detached(py, record)?))
    }

    /// Makes what comes later wait for an event of any device. The CPU goes on, but for an event of another
    /// plugin where the stream's plugin has no events that the host completes.
    fn wait(&self, py: Python<'_>, event: &Bound<'_, PyAny>) -> PyResult<()> {
        let event = Event::given("wait", event)?;
        let wait = || {
            check((api().stream_wait)(
                self.handle.lend(),
                event.lend(),
                Out::NULL,
            ))
        };
        Ok(detached(py, wait)?)
    }

    /// Waits until its work is done; `DeviceTimeoutError` after `timeout` seconds, `DeviceError` once for
    /// work that failed.
    #[pyo3(signature = (timeout=None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (limit, begin) = (limit(timeout)?, Instant::now());
        let wait = |limit| check((api().stream_synchronize)(self.handle.lend(), limit));
        if waiting::first_slice(py, limit, wait)? {
            return Ok(());
        }
        // An event stands for what is here now, however often it is waited for, and leaves a failure to the stream.
        let record = || made(|out| (api().stream_record)(self.handle.lend(), out));
        let end: Handle<XdEvent> = match detached(py, record) {
            Err(failed) if failed.status() == Status::UNSUPPORTED => {
                return waiting::wait(py, left(limit, begin), wait);
            }
            end => end?,
        };
        waiting::wait(py, left(limit, begin), |limit| {
            match check((api().event_synchronize)(end.lend(), limit)) {
                // The stream reports the failure once: now.
                Err(failed) if failed.status() != Status::TIMEOUT => match wait(0) {
                    Err(reported) if reported.status() != Status::TIMEOUT => Err(reported),
                    _ => Err(failed),
                },
                ended => ended,
            }
        })
    }

    /// Whether its work is done; `DeviceError` for work that failed, until `synchronize` has told of it.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        let query = || written(|out| (api().stream_is_idle)(self.handle.lend(), out));
        Ok(detached(py, query)? != 0)
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let mut streams: Vec<_> = entered(py)?.iter().collect();
        streams.push(slf.clone().into_any());
        variable(py)?.call_method1("set", (PyTuple::new(py, streams)?,))?;
        Ok(slf.clone())
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(slf: &Bound<'_, Self>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = slf.py();
        let mut streams: Vec<_> = entered(py)?.iter().collect();
        if let Some(last) = streams.iter().rposition(|stream| stream.is(slf)) {
            streams.truncate(last);
        }
        variable(py)?.call_method1("set", (PyTuple::new(py, streams)?,))?;
        Ok(())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            (api().stream_equal)(self.handle.lend(), other.get().handle.lend()) != 0
        })
    }

    fn __hash__(&self) -> PyResult<u64> {
        let device = self.own_device()?;
        Ok((api().device_hash)(device.handle.lend()))
    }

    fn __repr__(&self) -> PyResult<String> {
        let device = crate::objects::device::device_name(self.own_device()?.pair())?;
        Ok(format!("<crossdock.Stream on {device}>"))
    }
}
