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

    /// Remembers that the device is lost, where a call that is about it alone answered so.
    #[cold]
    pub(crate) fn notice_lost(&self, error: &Error) {
        if is_loss(error) {
            let (id, why) = (self.id(), error.why());
            log::error!(target: "crossdock::device", "{id} is lost: {error}: {why}");
            self.plugin().lost_devices().remember(self.index(), error);
        }
    }

    #[cold]
    fn lost_error(&self, operation: &str, noticed: &Error) -> Error {
        let message = format!("`{}` was lost; {noticed}: {}", self.id(), noticed.why());
        self.refusal(operation, Status::DEVICE_LOST, message)
    }
}

/// The same of a call that is about several devices, which are asked in turn.
pub(crate) fn notice<'a>(devices: impl Iterator<Item = &'a Device> + Clone, error: &Error) {
    if !is_loss(error) {
        return;
    }
    let mut others = devices.clone();
    if let Some(first) = others.next()
        && others.all(|other| other == first)
    {
        return first.notice_lost(error);
    }
    for device in devices {
        let asked = device.hooks().memory_info(device.index());
        if asked.is_err_and(|answer| is_loss(&answer)) {
            device.notice_lost(error);
        }
    }
}

fn is_loss(error: &Error) -> bool {
    error.status() == Some(Status::DEVICE_LOST)
}
