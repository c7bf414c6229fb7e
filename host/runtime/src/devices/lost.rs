//! Lost devices: the first call that notices is remembered, and later work is refused with its failure.
//!
//! A device counts as lost when a call that puts work on it answers `DEVICE_LOST`. The same answer of a wait does
//! not count: failures travel from stream to stream, so it may be about another device.

use crossdock_sdk::abi::Status;

use crate::devices::device::Device;
use crate::error::Error;

impl Device {
    /// Refuses work on a device that was lost.
    ///
    /// # Errors
    /// [`Error::Hook`]: `DEVICE_LOST`, with the call that noticed and its failure.
    #[inline]
    pub(crate) fn check_not_lost(&self, operation: &str) -> Result<(), Error> {
        match self.plugin().lost_devices().of(self.index()) {
            None => Ok(()),
            Some(noticed) => Err(self.lost_error(operation, &noticed)),
        }
    }

    #[cold]
    fn lost_error(&self, operation: &str, noticed: &Error) -> Error {
        let message = format!("`{}` was lost; {noticed}: {}", self.id(), noticed.why());
        self.refusal(operation, Status::DEVICE_LOST, message)
    }
}

/// Where a call answered `DEVICE_LOST`, finds out which of its devices is lost, and remembers that.
pub(crate) fn notice<'a>(devices: impl Iterator<Item = &'a Device> + Clone, error: &Error) {
    if error.status() != Some(Status::DEVICE_LOST) {
        return;
    }
    let mut others = devices.clone();
    let first = others.next();
    if first.is_some_and(|first| others.all(|other| other == first)) {
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
    device
        .plugin()
        .lost_devices()
        .remember(device.index(), error);
}
