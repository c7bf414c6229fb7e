//! Devices that were lost: who notices remembers it, and later work is refused with the call that noticed.
//!
//! Only what a plugin answers a call that puts work on a device says that the device is lost. A wait that fails
//! with `DEVICE_LOST` may tell of another one: failures travel from stream to stream.

use crossdock_sdk::abi::Status;

use crate::devices::device::Device;
use crate::error::Error;

impl Device {
    /// Refuses work on a device that was lost.
    ///
    /// # Errors
    /// [`Error::Hook`]: `DEVICE_LOST`, with the call that noticed and what that was told.
    #[inline]
    pub(crate) fn check_not_lost(&self, operation: &str) -> Result<(), Error> {
        match self.plugin().lost_devices().of(self.index()) {
            None => Ok(()),
            Some(noticed) => Err(self.is_lost_since(operation, &noticed)),
        }
    }

    #[cold]
    fn is_lost_since(&self, operation: &str, noticed: &Error) -> Error {
        let message = format!("`{}` was lost; {noticed}: {}", self.id(), noticed.why());
        self.refusal(operation, Status::DEVICE_LOST, message)
    }
}

/// Remembers which of the devices is lost that a call was about, where its answer says that one is.
pub(crate) fn notice<'a>(devices: impl Iterator<Item = &'a Device> + Clone, error: &Error) {
    if error.status() != Some(Status::DEVICE_LOST) {
        return;
    }
    let mut is_one = devices.clone();
    let first = is_one.next();
    if first.is_some_and(|first| is_one.all(|other| other == first)) {
        return first.into_iter().for_each(|only| remember(only, error));
    }
    for device in devices {
        let asked = device.hooks().memory_info(device.index());
        if asked.is_err_and(|error| error.status() == Some(Status::DEVICE_LOST)) {
            remember(device, error);
        }
    }
}

fn remember(device: &Device, error: &Error) {
    log::error!(target: "crossdock::device", "{} is lost: {error}: {}", device.id(), error.why());
    device.plugin().lost_devices().note(device.index(), error);
}
