//! `xd_device`: one device of one plugin.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crossdock_api::{
    DeviceInfo, Failure, MemoryInfo, MemoryUsage, Out, Owned, Ref, XdDevice, XdPlugin,
};
use crossdock_sdk::deadline::limit;

use crate::crossing::boundary::{fence_call, fence_free, fence_into, fence_value};
use crate::crossing::failure::On as _;
use crate::crossing::object::{Handle, borrow, give, look, retain};
use crate::functions::plugin::PluginObject;

impl Handle for XdDevice {
    type Object = crossdock::Device;
    const NAME: &'static str = "device";
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_describe(
    device: Ref<'_, XdDevice>,
    out: Out<'_, DeviceInfo>,
) -> Failure {
    fence_into("xd_device_describe", out, || Ok(borrow(device)?.info()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_memory(
    device: Ref<'_, XdDevice>,
    out: Out<'_, MemoryInfo>,
) -> Failure {
    fence_into("xd_device_memory", out, || {
        let device = borrow(device)?;
        device.memory().on(device)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_memory_usage(
    device: Ref<'_, XdDevice>,
    out: Out<'_, MemoryUsage>,
) -> Failure {
    fence_into("xd_device_memory_usage", out, || {
        let device = borrow(device)?;
        device.memory_usage().on(device)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_reset_peaks(device: Ref<'_, XdDevice>) -> Failure {
    fence_call("xd_device_reset_peaks", || {
        let device = borrow(device)?;
        device.reset_peaks().on(device)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_trim(device: Ref<'_, XdDevice>, keep_bytes: u64) -> Failure {
    fence_call("xd_device_trim", || {
        let device = borrow(device)?;
        device.trim(keep_bytes).on(device)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_plugin(
    device: Ref<'_, XdDevice>,
    out: Out<'_, Owned<XdPlugin>>,
) -> Failure {
    fence_into("xd_device_plugin", out, || {
        Ok(give(PluginObject::new(borrow(device)?.plugin())))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_equal(one: Ref<'_, XdDevice>, other: Ref<'_, XdDevice>) -> i32 {
    fence_value(|| Some((look(one)? == look(other)?).into()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_hash(device: Ref<'_, XdDevice>) -> u64 {
    fence_value(|| {
        let mut hasher = DefaultHasher::new();
        look(device)?.hash(&mut hasher);
        Some(hasher.finish())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_synchronize(
    device: Ref<'_, XdDevice>,
    limit_ns: u64,
) -> Failure {
    fence_call("xd_device_synchronize", || {
        let device = borrow(device)?;
        device.synchronize(limit(limit_ns)).on(device)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_retain(device: Ref<'_, XdDevice>) -> Owned<XdDevice> {
    fence_value(|| retain(device))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_free(device: Owned<XdDevice>) {
    fence_free(device);
}
