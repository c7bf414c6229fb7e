//! Calls inside of a context. Afterwards the thread has its own context again, and captures of others were not ended.

use crate::device::Device;
use crate::fault::Fault;
use crate::vendor::{Answer, Code, Vendor};

/// A context that is current on this thread until this is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a, V: Vendor> {
    pub(crate) device: &'a Device<V>,
    before: u64,
    /// The mode for captures of others before, where it was changed.
    capture_mode_before: Option<i32>,
}

impl<'a, V: Vendor> Entered<'a, V> {
    /// Makes a context of the device current.
    pub(crate) fn new(device: &'a Device<V>, context: u64) -> Result<Self, Fault> {
        let vendor = device.driver.vendor();
        let before = vendor.enter(device.ordinal, context);
        let before = before.map_err(|code| device.driver.fault(code))?;
        Ok(Self {
            device,
            before,
            capture_mode_before: vendor.relax_capture_mode(),
        })
    }

    pub(crate) fn vendor(&self) -> &V {
        self.device.driver.vendor()
    }

    /// The failure that a result of the driver stands for. The context is needed to ask whether the device is lost.
    pub(crate) fn fault(&self, code: Code) -> Fault {
        self.device.fault_inside(code)
    }

    /// Calls the driver.
    pub(crate) fn ask<T>(&self, call: impl FnOnce(&V) -> Answer<T>) -> Result<T, Fault> {
        call(self.vendor()).map_err(|code| self.fault(code))
    }
}

impl<V: Vendor> Drop for Entered<'_, V> {
    fn drop(&mut self) {
        if let Some(before) = self.capture_mode_before {
            self.vendor().restore_capture_mode(before);
        }
        self.vendor().leave(self.before);
    }
}
