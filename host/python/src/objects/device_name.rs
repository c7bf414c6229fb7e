//! Devices as callers name them.

use crossdock_api::{DLDevice, XdDevice};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::interpreter::calls;
use crate::interpreter::refusals::unless_refused;
use crate::link::handle::{Handle, c_text, made};
use crate::link::process_runtime::{device_of, looking, runtime};
use crate::link::table::api;
use crate::objects::device::Device;

/// A device as callers name it: a [`Device`], `"opencl:0"`, or a DLPack pair of numbers.
pub(crate) fn device_from(spec: &Bound<'_, PyAny>) -> PyResult<Py<Device>> {
    if let Some(device) = device_if_named(spec)? {
        return Ok(device);
    }
    Err(PyTypeError::new_err(format!(
        "a device is a Device, a text like \"opencl:0\" or a DLPack pair (type, id), not {}",
        spec.get_type().fully_qualified_name()?
    )))
}

/// As [`device_from`]; `None` for an object that is no name of a device.
pub(crate) fn device_if_named(spec: &Bound<'_, PyAny>) -> PyResult<Option<Py<Device>>> {
    let py = spec.py();
    if let Ok(device) = spec.cast_exact::<Device>() {
        return Ok(Some(device.clone().unbind()));
    }
    if let Ok(name) = spec.extract::<String>() {
        let name = c_text(&name)?;
        let runtime = runtime(py)?;
        let found: Handle<XdDevice> = looking(py, runtime, || {
            made(|out| (api().runtime_device_named)(runtime.lend(), name.as_c_str().into(), out))
        })?;
        return Ok(Some(Py::new(py, Device::new(found)?)?));
    }
    match pair_from(spec)? {
        Some(pair) => Ok(Some(Py::new(py, Device::new(device_of(py, pair)?)?)?)),
        None => Ok(None),
    }
}

/// A DLPack pair: of ints, or of members of an enumeration with such values. `None` for anything else.
///
/// # Errors
/// What the numbers raise.
pub(crate) fn pair_from(spec: &Bound<'_, PyAny>) -> PyResult<Option<DLDevice>> {
    let Ok((device_type, device_id)) = spec.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
    else {
        return Ok(None);
    };
    let (Some(device_type), Some(device_id)) = (number(&device_type)?, number(&device_id)?) else {
        return Ok(None);
    };
    Ok(Some(DLDevice {
        device_type,
        device_id,
    }))
}

fn number(part: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    let py = part.py();
    if let Some(number) = unless_refused(py, part.extract())? {
        return Ok(Some(number));
    }
    match calls::attribute_if_any(part, "value")? {
        Some(value) => unless_refused(py, value.extract()),
        None => Ok(None),
    }
}
