//! The host's own device: the built-in plugin's, for memory that the host sees, whether a runtime has
//! registered it or not.

#[cfg(feature = "cpu")]
use std::sync::Arc;

#[cfg(feature = "cpu")]
use arc_swap::ArcSwapOption;
#[cfg(feature = "cpu")]
use crossdock_layers::requested;
use crossdock_sdk::dlpack;

use crate::devices::device::Device;
#[cfg(feature = "cpu")]
use crate::devices::device::WeakDevice;
#[cfg(feature = "cpu")]
use crate::devices::shared::Shared;
#[cfg(feature = "cpu")]
use crate::error::Error;
#[cfg(feature = "cpu")]
use crate::loader::builtin;
#[cfg(feature = "cpu")]
use crate::plugin_files::Environment;
#[cfg(feature = "cpu")]
use crate::route_data::costs::CostCache;

/// One for all that ask while somebody holds it; in the child of a fork the child's own.
#[cfg(feature = "cpu")]
pub(crate) fn get() -> Option<Device> {
    static KEPT: ArcSwapOption<WeakDevice> = ArcSwapOption::const_empty();
    let is_of_use = |device: &Device| !device.hooks().is_forked() && !device.plugin().is_retired();
    let kept = KEPT.load().as_ref().and_then(|kept| kept.upgrade());
    if let Some(device) = kept.filter(is_of_use) {
        return Some(device);
    }
    let device = open().ok()?;
    KEPT.store(Some(Arc::new(device.downgrade())));
    Some(device)
}

/// A new one: a tensor may outlive the runtime that it came from.
///
/// # Errors
/// As [`builtin::cpu`], or what the plugin answers.
#[cfg(feature = "cpu")]
pub(crate) fn open() -> Result<Device, Error> {
    let plugin = builtin::cpu(|| Ok(requested(Environment::of_process().privileged)?))?;
    let info = plugin.hooks().device_info(0)?;
    // It is copied on, and nothing is moved from it to another device.
    let shared = Arc::new(Shared::new(None, &CostCache::Off));
    let id = dlpack::Device::CPU;
    Ok(Device::new(&plugin, 0, id, info, &shared))
}

/// None is linked in.
#[cfg(not(feature = "cpu"))]
pub(crate) const fn get() -> Option<Device> {
    None
}
