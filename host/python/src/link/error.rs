//! Failures of the runtime as Python exceptions: the one place that maps them.

use std::ffi::CStr;

use crossdock_api::{ErrorKind, Failure, Status, XdError};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyBufferError, PyMemoryError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::link::handle::{Handle, text};
use crate::link::table::api;

create_exception!(
    crossdock,
    DeviceError,
    PyRuntimeError,
    "What a plugin or its driver said: `.operation`, `.plugin`, `.device` (empty where only the \
     plugin is known), `.code` (the driver's number, else the status)."
);

static UNSUPPORTED_DEVICE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static COPY_REQUIRED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static TIMEOUT: PyOnceLock<Py<PyType>> = PyOnceLock::new();

const CONFLICT_HINT: &str = "end what is in its way: drop the view that `t.to(\"cpu\")` gave, or take it \
                             with `copy=True`; of memory that is registered, the registration";

const RETIRED_HINT: &str = "load the plugin again and name the device anew, as in `xd.device(\"opencl:0\")`; \
                            tensors of the retired plugin cannot be read any more";

const FORKED_HINT: &str = "name the device anew in the child, as in `xd.device(\"cpu:0\")`; where \
                           the parent started its driver, start the process by `spawn`";

/// A failure with its error object.
#[derive(Debug)]
pub(crate) struct Failed(Handle<XdError>);

/// Whether a call failed.
pub(crate) fn check(failure: Failure) -> Result<(), Failed> {
    if failure.is_null() {
        Ok(())
    } else {
        Err(Failed(Handle::new(failure)))
    }
}

impl Failed {
    pub(crate) fn kind(&self) -> ErrorKind {
        (api().error_kind)(self.0.lend())
    }

    pub(crate) fn status(&self) -> Status {
        (api().error_status)(self.0.lend())
    }

    pub(crate) fn what_and_why(&self) -> String {
        let api = api();
        let what = text((api.error_message)(self.0.lend()));
        let why = text((api.error_why)(self.0.lend()));
        let hint = match self.status() {
            // There is one runtime in a Python process, and no way to open another.
            // What says that a driver is the parent's has the device anew already.
            Status::FORKED if text((api.error_operation)(self.0.lend())) != "open" => {
                FORKED_HINT.to_owned()
            }
            Status::CONFLICT if self.kind() == ErrorKind::HOOK => CONFLICT_HINT.to_owned(),
            Status::RETIRED => RETIRED_HINT.to_owned(),
            _ => text((api.error_hint)(self.0.lend())),
        };
        // A function of C means nothing here, and nor does the hint that its arguments are wrong.
        match (what.starts_with("call `xd_"), self.kind()) {
            (false, _) => format!("{what}: {why} ({hint})"),
            (true, ErrorKind::MISUSE) => why,
            (true, _) => format!("{why} ({hint})"),
        }
    }

    /// Whatever failed for it.
    fn is_out_of_memory(&self) -> bool {
        [Status::OOM_DEVICE, Status::OOM_HOST].contains(&self.status())
    }

    /// The built-in exception that is nearest, for callers who can only name one.
    pub(crate) fn class_name(&self) -> &'static CStr {
        match self.kind() {
            _ if self.is_out_of_memory() => c"MemoryError",
            ErrorKind::MISUSE => c"ValueError",
            ErrorKind::UNKNOWN_DEVICE
            | ErrorKind::COPY_REQUIRED
            | ErrorKind::EXCHANGE
            | ErrorKind::CLAIM
            | ErrorKind::REFUSED => c"BufferError",
            _ => c"RuntimeError",
        }
    }

    /// What a driver said, with its attributes.
    fn device_error(&self, py: Python<'_>) -> PyErr {
        let api = api();
        let error = match TIMEOUT.get(py) {
            Some(class) if self.status() == Status::TIMEOUT => {
                PyErr::from_type(class.bind(py).clone(), self.what_and_why())
            }
            _ => DeviceError::new_err(self.what_and_why()),
        };
        let value = error.value(py);
        let lend = self.0.lend();
        let attributes = [
            ("operation", text((api.error_operation)(lend))),
            ("plugin", text((api.error_plugin)(lend))),
            ("device", text((api.error_device)(lend))),
        ];
        for (name, attribute) in attributes {
            if let Err(failed) = value.setattr(name, attribute) {
                return failed;
            }
        }
        let native = (api.error_native_code)(lend);
        let code = if native == 0 {
            i64::from(self.status().raw())
        } else {
            native
        };
        match value.setattr("code", code) {
            Ok(()) => error,
            Err(failed) => failed,
        }
    }
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> Self {
        Python::attach(|py| match failed.kind() {
            _ if failed.is_out_of_memory() => PyMemoryError::new_err(failed.what_and_why()),
            ErrorKind::MISUSE => PyValueError::new_err(failed.what_and_why()),
            ErrorKind::UNKNOWN_DEVICE => unsupported_device(py, failed.what_and_why()),
            ErrorKind::COPY_REQUIRED => copy_required(py, failed.what_and_why()),
            ErrorKind::EXCHANGE | ErrorKind::CLAIM | ErrorKind::REFUSED => {
                PyBufferError::new_err(failed.what_and_why())
            }
            _ => failed.device_error(py),
        })
    }
}

/// A device that nothing here can serve: a `BufferError`, a `TypeError`, and a `ValueError`.
pub(crate) fn unsupported_device(py: Python<'_>, why: String) -> PyErr {
    raise(py, &UNSUPPORTED_DEVICE, why)
}

/// A copy that was forbidden: both a `BufferError` and a `ValueError`.
pub(crate) fn copy_required(py: Python<'_>, why: String) -> PyErr {
    raise(py, &COPY_REQUIRED, why)
}

fn raise(py: Python<'_>, class: &PyOnceLock<Py<PyType>>, why: String) -> PyErr {
    match class.get(py) {
        Some(class) => PyErr::from_type(class.bind(py).clone(), why),
        None => PyBufferError::new_err(why),
    }
}

/// Adds the exception classes to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    let buffer = py.get_type::<PyBufferError>();
    let value = py.get_type::<PyValueError>();
    let classes = [
        (
            "DeviceTimeoutError",
            vec![
                py.get_type::<DeviceError>(),
                py.get_type::<PyTimeoutError>(),
            ],
            &TIMEOUT,
            "What was waited for was not over within the limit; it goes on.",
        ),
        (
            "UnsupportedDeviceError",
            vec![buffer.clone(), py.get_type::<PyTypeError>(), value.clone()],
            &UNSUPPORTED_DEVICE,
            "No plugin can serve the device.",
        ),
        (
            "CopyRequiredError",
            vec![buffer, value],
            &COPY_REQUIRED,
            "It would take a copy, and `copy=False` forbids one.",
        ),
    ];
    for (name, bases, place, doc) in classes {
        let namespace = PyDict::new(py);
        namespace.set_item("__module__", "crossdock")?;
        namespace.set_item("__doc__", doc)?;
        let bases = PyTuple::new(py, bases)?;
        let class = py.get_type::<PyType>().call1((name, bases, namespace))?;
        let class = class.cast_into::<PyType>()?;
        module.add(name, &class)?;
        // The module is made once; a second interpreter keeps the first one's class.
        let _kept = place.set(py, class.unbind());
    }
    Ok(())
}
