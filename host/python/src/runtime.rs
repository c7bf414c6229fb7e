//! The process's runtime, and the functions that ask it.
#![expect(unsafe_code, reason = "keeps the runtime in an atomic pointer")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Instant;

use crossdock_api::{
    DLDevice, Out, Owned, Ref, XdDevice, XdDeviceList, XdLayout, XdMoveOptions, XdPlugin,
    XdPluginList, XdRuntime,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::busy_streams;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::{Failed, check};
use crate::handle::{Handle, made};
use crate::integers::integers;
use crate::interpreter::detached;
use crate::moving::{copy_mode, ordering};
use crate::plugin::Plugin;
use crate::python_calls;
use crate::refusals::unless_refused;
use crate::route::Route;
use crate::stream::{limit, stream_for};
use crate::table::api;
use crate::target::Target;
use crate::tensor::Tensor;
use crate::waiting;

/// A handle that is never given back: NULL until somebody asks, and in the child of a fork again.
static RUNTIME: AtomicPtr<Handle<XdRuntime>> = AtomicPtr::new(ptr::null_mut());

/// The process's runtime, opened at the first question.
#[inline]
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Handle<XdRuntime>> {
    // SAFETY: NULL, or a box that was given up for good.
    match unsafe { RUNTIME.load(Ordering::Acquire).as_ref() } {
        Some(runtime) => Ok(runtime),
        None => open(py),
    }
}

#[cold]
fn open(py: Python<'_>) -> PyResult<&'static Handle<XdRuntime>> {
    let opened = detached(py, || made(|out| (api().runtime_default)(out)))?;
    let opened = Box::into_raw(Box::new(opened));
    // Where another thread was faster, it has another handle of the same runtime.
    let order = (Ordering::AcqRel, Ordering::Acquire);
    let _first = RUNTIME.compare_exchange(ptr::null_mut(), opened, order.0, order.1);
    // SAFETY: a box that nobody gives back.
    Ok(unsafe { &*opened })
}

/// Called in the child of a fork, which opens its own: the parent's answers `FORKED`.
pub(crate) fn forget() {
    RUNTIME.store(ptr::null_mut(), Ordering::Release);
}

/// Runs what may start drivers: without the interpreter while there is one to start. That takes its time, and a
/// driver may want the interpreter itself.
#[inline]
pub(crate) fn looking<T: Send>(
    py: Python<'_>,
    runtime: &Handle<XdRuntime>,
    work: impl FnOnce() -> T + Send,
) -> T {
    match (api().runtime_may_start_drivers)(runtime.lend()) {
        0 => work(),
        _ => detached(py, work),
    }
}

/// Starts the drivers that a claim of this device needs, before a call that would do so attached.
#[inline]
pub(crate) fn look_for(py: Python<'_>, runtime: &Handle<XdRuntime>, claim: DLDevice) {
    const CPU: i32 = 1;
    if claim.device_type != CPU && (api().runtime_may_start_drivers)(runtime.lend()) != 0 {
        // The call that follows says what is wrong.
        let _found = detached(py, || find(runtime, claim));
    }
}

fn find(runtime: &Handle<XdRuntime>, pair: DLDevice) -> Result<Handle<XdDevice>, Failed> {
    made(|out| (api().runtime_device)(runtime.lend(), pair, out))
}

/// The device with a DLPack pair.
pub(crate) fn device_of(py: Python<'_>, pair: DLDevice) -> PyResult<Handle<XdDevice>> {
    let runtime = runtime(py)?;
    Ok(looking(py, runtime, || find(runtime, pair))?)
}

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
fn device_if_named(spec: &Bound<'_, PyAny>) -> PyResult<Option<Py<Device>>> {
    let py = spec.py();
    if let Ok(device) = spec.cast_exact::<Device>() {
        return Ok(Some(device.clone().unbind()));
    }
    if let Ok(name) = spec.extract::<String>() {
        let name = crate::handle::c_text(&name)?;
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
    match python_calls::attribute_if_any(part, "value")? {
        Some(value) => unless_refused(py, value.extract()),
        None => Ok(None),
    }
}

/// The devices here, in a fixed order: by plugin as they were registered, and in the plugin's own
/// order (see the plugin's page) within one.
///
/// Plugins that nobody needed so far are probed and opened for it, which starts their drivers.
#[pyfunction]
fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    let runtime = runtime(py)?;
    let list = || made(|out| (api().runtime_devices)(runtime.lend(), out));
    let list: Handle<XdDeviceList> = looking(py, runtime, list)?;
    let own = |device: &Ref<'_, XdDevice>| Device::new(Handle::new((api().device_retain)(*device)));
    list.lend().items().iter().map(own).collect()
}

/// The device that `spec` names: `"opencl:0"`, a `Device`, or a DLPack pair `(type, id)`; or the first
/// one with this `uuid` (16 bytes), or at this place of the PCI bus (`"0000:03:00.0"`), which stay with the
/// hardware whatever number the device has in this process.
///
/// A name or a pair starts the drivers of plugins that may serve its type; `uuid` and `pci_bus_id` those of all
/// plugins that nobody needed so far.
///
/// Raises `UnsupportedDeviceError` when no plugin offers it, with the devices that are here.
#[pyfunction]
#[pyo3(signature = (spec=None, *, uuid=None, pci_bus_id=None))]
fn device(
    py: Python<'_>,
    spec: Option<&Bound<'_, PyAny>>,
    uuid: Option<[u8; 16]>,
    pci_bus_id: Option<&str>,
) -> PyResult<Py<Device>> {
    let found = match (spec, uuid, pci_bus_id) {
        (Some(spec), None, None) => return device_from(spec),
        (None, Some(uuid), None) => {
            let runtime = runtime(py)?;
            let find = |out: Out<'_, Owned<XdDevice>>| {
                // SAFETY: 16 bytes that live during the call.
                unsafe { (api().runtime_device_by_uuid)(runtime.lend(), uuid.as_ptr(), out) }
            };
            looking(py, runtime, || made(find))?
        }
        (None, None, Some(id)) => {
            let (runtime, id) = (runtime(py)?, crate::handle::c_text(id)?);
            looking(py, runtime, || {
                made(|out| (api().runtime_device_by_pci)(runtime.lend(), id.as_c_str().into(), out))
            })?
        }
        _ => {
            let why = "name a device by one of: its name, `uuid`, `pci_bus_id`";
            return Err(PyTypeError::new_err(why));
        }
    };
    Py::new(py, Device::new(found)?)
}

/// The registered plugins, also those whose devices are absent.
#[pyfunction]
fn plugins(py: Python<'_>) -> PyResult<Vec<Plugin>> {
    let runtime = runtime(py)?;
    let list: Handle<XdPluginList> = made(|out| (api().runtime_plugins)(runtime.lend(), out))?;
    let own = |plugin: &Ref<'_, XdPlugin>| Plugin::new(Handle::new((api().plugin_retain)(*plugin)));
    Ok(list.lend().items().iter().map(own).collect())
}

/// Loads a plugin file; its devices are there at once. The same file is loaded once.
///
/// Raises `DeviceError` where it cannot be opened; the next call tries again.
#[pyfunction]
fn load_plugin(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Plugin> {
    let runtime = runtime(py)?;
    let path = crate::handle::c_text(&path.to_string_lossy())?;
    let loaded: Handle<XdPlugin> = detached(py, || {
        made(|out| (api().runtime_load_plugin)(runtime.lend(), path.as_c_str().into(), out))
    })?;
    Ok(Plugin::new(loaded))
}

/// Removes a plugin. Tensors on it can still be dropped.
pub(crate) fn retire(py: Python<'_>, plugin: &Handle<XdPlugin>) -> PyResult<()> {
    let runtime = runtime(py)?;
    let retire = || check((api().runtime_retire_plugin)(runtime.lend(), plugin.lend()));
    Ok(detached(py, retire)?)
}

/// Waits until all memory that was dropped before, while a stream still used it, is given back to its
/// owner, and so is each stream of another library that was dropped while its work ran.
/// `DeviceTimeoutError` after `timeout` seconds.
#[pyfunction]
#[pyo3(signature = (timeout=None))]
fn wait_for_releases(py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
    let (limit, runtime, begin) = (limit(timeout)?, runtime(py)?, Instant::now());
    waiting::wait_once(py, limit, |limit| {
        check((api().runtime_wait_for_releases)(runtime.lend(), limit))
    })?;
    // What was given back may have been the last that held a stream.
    busy_streams::wait(py, limit, begin)
}

/// What moving a tensor to `device` would do, and why: `x` is a tensor, or a device together with
/// the `shape` and `dtype` of what would be moved. `copy` and `stream` are those of `Tensor.to`.
#[pyfunction]
#[pyo3(signature = (x, device, *, shape=None, dtype=None, copy=None, stream=None))]
fn explain(
    x: &Bound<'_, PyAny>,
    device: &Bound<'_, PyAny>,
    shape: Option<&Bound<'_, PyAny>>,
    dtype: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Route> {
    let py = x.py();
    let target = Target::from_any(device)?;
    let tensor = x.cast::<Tensor>().ok();
    let source = match tensor {
        Some(tensor) => Some(Py::new(py, tensor.get().own_device()?)?),
        None => device_if_named(x)?,
    };
    let Some(source) = source else {
        return Err(PyTypeError::new_err(format!(
            "explain takes a tensor or a device, not {}: `xd.asarray(x)` makes a tensor",
            x.get_type().name()?
        )));
    };
    let ordering = ordering(source.bind(py), target.device.bind(py));
    let stream = stream.map(|stream| stream_for(ordering.get(), stream));
    let stream = stream.transpose()?;
    let (from, to) = (&source.get().handle, &target.device.get().handle);
    let options = || {
        let mut options = XdMoveOptions::new();
        (options.copy, options.kind) = (copy_mode(copy), target.kind);
        if let Some(stream) = &stream {
            options.stream = stream.handle.lend();
        }
        options
    };
    if let Some(tensor) = tensor {
        let tensor = tensor.get().handle();
        let explain = || {
            let options = options();
            made(|out| (api().tensor_explain)(tensor.lend(), to.lend(), (&options).into(), out))
        };
        return Ok(Route::new(detached(py, explain)?));
    }
    let dtype = dtype.map_or_else(|| Dtype::named("float32"), Dtype::from_any)?;
    let shape = shape.map_or_else(|| Ok(vec![1 << 20]), integers)?;
    let explain = || {
        let layout = XdLayout::compact(dtype.0, &shape);
        let (options, layout) = (options(), Ref::from(&layout));
        made(|out| (api().route_explain)(from.lend(), to.lend(), layout, (&options).into(), out))
    };
    Ok(Route::new(detached(py, explain)?))
}

/// The address of the runtime, by which a host, this module and an extension can see that they
/// share one.
#[pyfunction]
fn _runtime_address(py: Python<'_>) -> PyResult<usize> {
    Ok(runtime(py)?.address())
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(device, module)?)?;
    module.add_function(wrap_pyfunction!(plugins, module)?)?;
    module.add_function(wrap_pyfunction!(load_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(wait_for_releases, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(_runtime_address, module)?)?;
    Ok(())
}
