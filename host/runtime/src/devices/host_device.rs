//! The host's own device: the built-in plugin's, for memory that the host sees, whether a runtime has
//! registered it or not.

#[cfg(feature = "cpu")]
use std::sync::Arc;

#[cfg(feature = "cpu")]
use arc_swap::ArcSwapOption;

use crate::devices::device::Device;
#[cfg(feature = "cpu")]
use crate::devices::device::WeakDevice;
#[cfg(feature = "cpu")]
use crate::loader::builtin;

/// One for all that ask while somebody holds it; in the child of a fork the child's own.
#[cfg(feature = "cpu")]
pub(crate) fn get() -> Option<Device> {
    static KEPT: ArcSwapOption<WeakDevice> = ArcSwapOption::const_empty();
    let is_of_use = |device: &Device| !device.hooks().is_forked() && !device.plugin().is_retired();
    let kept = KEPT.load().as_ref().and_then(|kept| kept.upgrade());
    if let Some(device) = kept.filter(is_of_use) {
        return Some(device);
    }
    let device = builtin::device().ok()?;
    KEPT.store(Some(Arc::new(device.downgrade())));
    Some(device)
}

/// None is linked in.
#[cfg(not(feature = "cpu"))]
pub(crate) const fn get() -> Option<Device> {
    None
}
