//! Finding OpenCL: the loader, its platforms and their devices, in an order of our own.
#![expect(
    unsafe_code,
    reason = "a new context's reference is taken over from the vendor"
)]

use std::{
    env,
    ffi::c_void,
    fs,
    path::Path,
    sync::{Arc, Once},
};

use crossdock_sdk::log;
use opencl3::{
    context::context as cl_context, device as cl_device, platform::platform as cl_platform,
};

use crate::{
    convert,
    device::{Class, Device, DeviceId, Facts, Platform, clean, made_up_uuid},
    fault::{Fault, Kind},
    handle::{Context, DriverState, TARGET},
    kernel_cache,
    usm::Usm,
};

/// Whether OpenCL is here.
#[derive(Debug)]
pub(crate) enum Presence {
    /// At least one device, and the version of the first platform.
    Ready {
        devices: u32,
        version: String,
    },
    /// Nothing is wrong; it is not installed. What was looked for, and where.
    Absent {
        what: &'static str,
        looked: Vec<String>,
    },
    Broken {
        why: String,
    },
}

/// Looks for the loader, a platform and a device, and changes nothing.
pub(crate) fn look() -> Presence {
    let platforms = match platforms() {
        Ok(platforms) => platforms,
        Err(convert::LOADER_MISSING) => {
            return Presence::Absent {
                what: "the OpenCL loader library",
                looked: loader_names(),
            };
        }
        Err(convert::NO_PLATFORM) => return no_platform(),
        Err(code) => {
            return Presence::Broken {
                why: Fault::native("clGetPlatformIDs", code).message,
            };
        }
    };
    if platforms.is_empty() {
        return no_platform();
    }
    let devices: usize = platforms.iter().map(|raw| root_devices(*raw).len()).sum();
    if devices > 0 {
        return Presence::Ready {
            devices: u32::try_from(devices).unwrap_or(u32::MAX),
            version: platforms
                .first()
                .map(|raw| fact(*raw, cl_platform::CL_PLATFORM_VERSION))
                .unwrap_or_default(),
        };
    }
    let names: Vec<_> = platforms.iter().map(|raw| name_of(*raw)).collect();
    if let Some(why) = names.iter().find_map(|name| kernel_cache::fault_of(name)) {
        return Presence::Broken { why };
    }
    Presence::Absent {
        what: "a device of an OpenCL platform",
        looked: names,
    }
}

/// OpenCL, opened: every usable device of every platform.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) driver_state: Arc<DriverState>,
    pub(crate) devices: Vec<Arc<Device>>,
}

impl Driver {
    /// Makes one context for each platform and numbers the devices.
    pub(crate) fn open() -> Result<Self, Fault> {
        let driver_state = DriverState::new();
        let platforms = platforms().map_err(|code| Fault::native("clGetPlatformIDs", code))?;
        let mut devices = Vec::new();
        for raw in platforms {
            // One bad driver must not hide the others.
            match open_platform(raw, &driver_state) {
                Ok(found) => devices.extend(found),
                Err(fault) => {
                    log::warn!(target: TARGET, "platform `{}` skipped: {fault}", name_of(raw));
                }
            }
        }
        if devices.is_empty() {
            return Err(Fault::new(
                Kind::NoDevice,
                "open",
                "no OpenCL platform offers a usable device",
            ));
        }
        devices.sort_by_cached_key(order_key);
        Ok(Self {
            driver_state,
            devices: devices.into_iter().map(Arc::new).collect(),
        })
    }
}

/// GPU before CPU, then the platform's name, then what tells devices of one platform apart.
fn order_key(device: &Device) -> impl Ord + use<> {
    (
        device.facts.class,
        device.platform.name.clone(),
        (!device.facts.uuid_is_native, device.facts.pci),
        (device.facts.name.clone(), device.facts.uuid),
    )
}

fn open_platform(raw: RawPlatform, driver_state: &Arc<DriverState>) -> Result<Vec<Device>, Fault> {
    let name = name_of(raw);
    let mut found: Vec<(DeviceId, Facts)> = Vec::new();
    for id in root_devices(raw) {
        let mut facts = Facts::read(id, &name)?;
        if !facts.available {
            log::warn!(target: TARGET, "device `{}` of `{name}` is not available", facts.name);
            continue;
        }
        let twins = found
            .iter()
            .filter(|(_, other)| other.name == facts.name)
            .count();
        if !facts.uuid_is_native {
            facts.uuid = made_up_uuid(&name, &facts.name, u32::try_from(twins).unwrap_or(0));
        }
        found.push((id, facts));
    }
    if found.is_empty() {
        if let Some(why) = kernel_cache::fault_of(&name) {
            log::warn!(target: TARGET, "{why}");
        }
        return Ok(Vec::new());
    }
    let ids: Vec<*mut c_void> = found.iter().map(|(id, _)| id.raw()).collect();
    let platform = Arc::new(Platform {
        context: create_context(raw, &ids, driver_state)?,
        version: fact(raw, cl_platform::CL_PLATFORM_VERSION),
        usm: found
            .iter()
            .all(|(_, facts)| facts.usm)
            .then(|| Usm::of(raw))
            .flatten(),
        only_cpus: found.iter().all(|(_, facts)| facts.class == Class::Cpu),
        turns: Arc::default(),
        name,
    });
    found
        .into_iter()
        .map(|(id, facts)| Device::open(id, facts, &platform))
        .collect()
}

/// The vendor's name for a platform, which is never freed.
type RawPlatform = *mut c_void;

/// All platforms.
///
/// PoCL 3 crashes when two threads ask it for the first time at once, so the first question is
/// asked by one thread, and the others wait for it.
fn platforms() -> Result<Vec<RawPlatform>, i32> {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        for raw in cl_platform::get_platform_ids().unwrap_or_default() {
            root_devices(raw);
        }
    });
    cl_platform::get_platform_ids()
}

fn create_context(
    platform: RawPlatform,
    devices: &[*mut c_void],
    driver_state: &Arc<DriverState>,
) -> Result<Context, Fault> {
    const OPERATION: &str = "clCreateContext";
    let properties = [
        cl_context::CL_CONTEXT_PLATFORM,
        platform.expose_provenance().cast_signed(),
        0,
    ];
    let raw = cl_context::create_context(devices, properties.as_ptr(), None, std::ptr::null_mut())
        .map_err(|code| Fault::native(OPERATION, code))?;
    // SAFETY: `adopt` needs a live context with a reference to give: it was just created.
    unsafe { Context::adopt(raw, driver_state, OPERATION) }
}

/// The devices of a platform; none is an error number in OpenCL, and an empty list here.
fn root_devices(platform: RawPlatform) -> Vec<DeviceId> {
    cl_device::get_device_ids(platform, cl_device::CL_DEVICE_TYPE_ALL)
        .unwrap_or_default()
        .into_iter()
        .map(DeviceId::new)
        .collect()
}

fn name_of(platform: RawPlatform) -> String {
    fact(platform, cl_platform::CL_PLATFORM_NAME)
}

fn fact(platform: RawPlatform, which: u32) -> String {
    cl_platform::get_platform_data(platform, which)
        .map(|bytes| clean(&bytes))
        .unwrap_or_default()
}

fn no_platform() -> Presence {
    Presence::Absent {
        what: "an OpenCL platform (an `.icd` file that names a driver)",
        looked: icd_places(),
    }
}

/// Where `opencl3` looks for the loader.
fn loader_names() -> Vec<String> {
    let chosen = env::var("OPENCL_DYLIB_PATH").unwrap_or_default();
    let mut names: Vec<String> = chosen
        .split(';')
        .filter(|name| !name.is_empty())
        .map(|name| format!("{name} (OPENCL_DYLIB_PATH)"))
        .collect();
    names.push("libOpenCL.so.1".to_owned());
    names
}

/// Where loaders look for drivers, with each `.icd` file there and the library it names.
fn icd_places() -> Vec<String> {
    let folder = env::var("OCL_ICD_VENDORS")
        .ok()
        .filter(|folder| !folder.is_empty())
        .unwrap_or_else(|| "/etc/OpenCL/vendors".to_owned());
    let mut places = vec![folder.clone()];
    if let Ok(files) = env::var("OCL_ICD_FILENAMES") {
        places.push(format!("{files} (OCL_ICD_FILENAMES)"));
    }
    let mut files: Vec<_> = fs::read_dir(&folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    places.extend(files.iter().filter_map(|file| icd_line(file)));
    places
}

fn icd_line(file: &Path) -> Option<String> {
    if file.extension()? != "icd" {
        return None;
    }
    let library = fs::read_to_string(file).unwrap_or_default();
    let library = library.lines().next().unwrap_or_default().trim();
    Some(format!("{} -> {library}", file.display()))
}
