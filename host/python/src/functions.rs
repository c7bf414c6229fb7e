//! The functions of the package that ask the runtime.
#![expect(unsafe_code, reason = "gives the runtime a uuid")]

use crossdock_api::{
    Out, Owned, Ref, XdDevice, XdDeviceList, XdLayout, XdMoveOptions, XdPlugin, XdPluginList,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::interpreter::integers::integers;
use crate::link::error::check;
use crate::link::handle::{Handle, made};
use crate::link::process_runtime::{looking, runtime};
use crate::link::table::api;
use crate::link::waiting::{self, Of};
use crate::objects::device::Device;
use crate::objects::device_name::{device_from, device_if_named};
use crate::objects::dtype::Dtype;
use crate::objects::plugin::Plugin;
use crate::objects::route::Route;
use crate::objects::stream::{limit, stream_for};
use crate::objects::target::Target;
use crate::tensors::moving::{copy_mode, ordering};
use crate::tensors::tensor::Tensor;

/// The devices here, in a fixed order: plugin by plugin as these were registered, each plugin's devices by
/// their index in it.
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
            let (runtime, id) = (runtime(py)?, crate::link::handle::c_text(id)?);
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
    let path = crate::link::handle::c_text(&path.to_string_lossy())?;
    let loaded: Handle<XdPlugin> = detached(py, || {
        made(|out| (api().runtime_load_plugin)(runtime.lend(), path.as_c_str().into(), out))
    })?;
    Ok(Plugin::new(loaded))
}

/// Waits until all memory that was dropped before, while a stream still used it, is given back to its
/// owner, and so is each stream of another library that was dropped while its work ran. Waits also until
/// the work of one plugin is over that a stream of another plugin was made to wait for, or that another
/// thread waits for in `Device.synchronize`.
/// `DeviceTimeoutError` after `timeout` seconds.
#[pyfunction]
#[pyo3(signature = (timeout=None))]
fn wait_for_releases(py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
    let runtime = runtime(py)?;
    waiting::wait_once(py, Of::Releases, limit(timeout)?, |limit| {
        check((api().runtime_wait_for_releases)(runtime.lend(), limit))
    })
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
