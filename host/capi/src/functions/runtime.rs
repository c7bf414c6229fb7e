//! `xd_runtime`: which plugins and devices there are.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::path::Path;

use crossdock::{CostCache, Layer, Runtime, RuntimeBuilder};
use crossdock_api::{
    DLDevice, Failure, MemoryKind, Out, Owned, Ref, RuntimeFlags, Text, XdDevice, XdPlugin,
    XdRuntime, XdRuntimeOptions,
};
use crossdock_sdk::deadline::limit;
use crossdock_sdk::dlpack::{Device, DlpackError};

use crate::crossing::boundary::{fence_call, fence_free, fence_into, fence_value, required};
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{Handle, borrow, give, give_shared, look, retain, shared};
use crate::functions::default_runtime;
use crate::functions::plugin::PluginObject;

impl Handle for XdRuntime {
    type Object = Runtime;
    const NAME: &'static str = "runtime";
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_open(
    options: Ref<'_, XdRuntimeOptions<'_>>,
    out: Out<'_, Owned<XdRuntime>>,
) -> Failure {
    fence_into("xd_runtime_open", out, || {
        let options = input::options_or(options, XdRuntimeOptions::new(&[], &[]))?;
        Ok(give(builder(&options)?.open()?))
    })
}

fn builder(options: &XdRuntimeOptions<'_>) -> Result<RuntimeBuilder, Refusal> {
    input::check_flags(options.flags.0, RuntimeFlags::NO_SEARCH.0)?;
    let mut builder = Runtime::builder().search(options.flags != RuntimeFlags::NO_SEARCH);
    for file in options.plugins().ok_or_else(|| Refusal::null("plugins"))? {
        builder = builder.plugin(input::text(*file, "a plugin's path")?);
    }
    for folder in options.folders().ok_or_else(|| Refusal::null("folders"))? {
        builder = builder.plugin_dir(input::text(*folder, "a folder's path")?);
    }
    let layers = input::optional_text(options.layers, "layers")?;
    let fault = input::optional_text(options.fault, "fault")?;
    builder = builder
        .layers(&Layer::named(layers.unwrap_or_default(), fault).map_err(crossdock::Error::from)?);
    if let Some(order) = input::optional_text(options.device_order, "device_order")? {
        builder = builder.device_order(order);
    }
    if let Some(costs) = input::optional_text(options.costs, "costs")? {
        builder = builder.costs(CostCache::named(costs));
    }
    if options.staging_bytes != 0 {
        builder = builder.staging_bytes(options.staging_bytes);
    }
    Ok(builder)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_default(out: Out<'_, Owned<XdRuntime>>) -> Failure {
    fence_into("xd_runtime_default", out, || {
        Ok(give_shared(default_runtime::get_or_open()?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_make_default(runtime: Ref<'_, XdRuntime>) -> Failure {
    fence_call("xd_runtime_make_default", || {
        let runtime = shared(runtime).ok_or_else(|| Refusal::null("runtime"))?;
        match default_runtime::offer(&runtime) {
            None => Ok(()),
            Some(_other) => Err(Refusal::SecondDefault),
        }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_retain(runtime: Ref<'_, XdRuntime>) -> Owned<XdRuntime> {
    fence_value(|| retain(runtime))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_free(runtime: Owned<XdRuntime>) {
    fence_free(runtime);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_load_plugin(
    runtime: Ref<'_, XdRuntime>,
    path: Text<'_>,
    out: Out<'_, Owned<XdPlugin>>,
) -> Failure {
    fence_into("xd_runtime_load_plugin", out, || {
        let path = Path::new(input::text(path, "path")?);
        Ok(give(PluginObject::new(&borrow(runtime)?.load(path)?)))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_retire_plugin(
    runtime: Ref<'_, XdRuntime>,
    plugin: Ref<'_, XdPlugin>,
) -> Failure {
    fence_call("xd_runtime_retire_plugin", || {
        Ok(borrow(runtime)?.retire(&borrow(plugin)?.plugin)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_wait_for_releases(
    runtime: Ref<'_, XdRuntime>,
    limit_ns: u64,
) -> Failure {
    fence_call("xd_runtime_wait_for_releases", || {
        Ok(borrow(runtime)?.wait_for_releases(limit(limit_ns))?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_may_start_drivers(runtime: Ref<'_, XdRuntime>) -> i32 {
    fence_value(|| Some(look(runtime)?.may_start_drivers().into()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_device(
    runtime: Ref<'_, XdRuntime>,
    device: DLDevice,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_runtime_device", out, || {
        let device = borrow(runtime)?.device(Device::from_raw(device))?;
        Ok(give(device))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_device_named(
    runtime: Ref<'_, XdRuntime>,
    name: Text<'_>,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_runtime_device_named", out, || {
        let runtime = borrow(runtime)?;
        let device = input::text(name, "name")?
            .parse::<Device>()
            .map_err(|error| no_device_text(runtime, error))?;
        Ok(give(runtime.device(device)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_target_named(
    runtime: Ref<'_, XdRuntime>,
    name: Text<'_>,
    out: Out<'_, Owned<XdDevice>>,
    out_kind: Out<'_, MemoryKind>,
) -> Failure {
    fence_call("xd_runtime_target_named", || {
        let (out, out_kind) = (required(out)?, required(out_kind)?);
        let runtime = borrow(runtime)?;
        let named = input::text(name, "name")?
            .parse::<Device>()
            .map_err(|error| no_device_text(runtime, error))?;
        let target = runtime.target(named)?;
        out_kind.put(target.kind().unwrap_or(MemoryKind::UNOWNED));
        out.put(give(target.device().clone()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_runtime_device_by_uuid(
    runtime: Ref<'_, XdRuntime>,
    uuid: *const u8,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_runtime_device_by_uuid", out, || {
        // SAFETY: the header asks for 16 bytes.
        let (runtime, uuid) = (borrow(runtime)?, unsafe { input::uuid(uuid) }?);
        let found = runtime.device_by_uuid(uuid);
        let text = |uuid| format!("{:032x}", u128::from_be_bytes(uuid));
        let nobody = || {
            let own = |device: &crossdock::Device| device.uuid().map(text);
            no_device_with(runtime, "uuid", &text(uuid), own)
        };
        found.map(give).ok_or_else(nobody)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_device_by_pci(
    runtime: Ref<'_, XdRuntime>,
    pci_bus_id: Text<'_>,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_runtime_device_by_pci", out, || {
        let (runtime, asked) = (borrow(runtime)?, input::text(pci_bus_id, "pci_bus_id")?);
        let own = |device: &crossdock::Device| device.pci_bus_id().map(ToOwned::to_owned);
        let nobody = || no_device_with(runtime, "PCI bus id", asked, own);
        runtime.device_by_pci(asked).map(give).ok_or_else(nobody)
    })
}

/// What is asked for is told with what the devices here have of the kind.
fn no_device_with(
    runtime: &Runtime,
    kind: &str,
    asked: &str,
    own: impl Fn(&crossdock::Device) -> Option<String>,
) -> Refusal {
    let of = |device: &crossdock::Device| Some(format!("{} has {}", device.id(), own(device)?));
    let devices = runtime.devices();
    let here: Vec<String> = devices.iter().filter_map(of).collect();
    let here = if here.is_empty() {
        "no device here has one".to_owned()
    } else {
        here.join(", ")
    };
    Refusal::NoDevice {
        why: format!("no device has the {kind} {asked:?}: {here}"),
    }
}

/// A name that is no type's is told with the devices that are here, as a device that is not here.
fn no_device_text(runtime: &Runtime, error: DlpackError) -> Refusal {
    let DlpackError::DeviceTypeText { text } = error else {
        return error.into();
    };
    let why = format!("no device type {text:?}; {}", runtime.devices_here());
    Refusal::NoDevice { why }
}
