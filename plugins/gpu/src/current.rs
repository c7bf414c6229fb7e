//! Calls inside of a context: the thread's own one is back afterwards, and captures of others go on.

use crate::device::Device;
use crate::fault::Fault;
use crate::vendor::{Answer, Code, Vendor};

/// A context that is the thread's, until this goes.
#[derive(Debug)]
pub(crate) struct Entered<'a, V: Vendor> {
    pub(crate) device: &'a Device<V>,
    before: u64,
    captures: i32,
}

impl<'a, V: Vendor> Entered<'a, V> {
    /// Makes a context of the device the thread's.
    pub(crate) fn new(device: &'a Device<V>, context: u64) -> Result<Self, Fault> {
        let vendor = device.driver.vendor();
        let before = vendor.enter(device.ordinal, context);
        let before = before.map_err(|code| device.driver.fault(code))?;
        Ok(Self {
            device,
            before,
            captures: vendor.relax_captures(),
        })
    }

    pub(crate) fn vendor(&self) -> &V {
        self.device.driver.vendor()
    }

    /// What an answer of the driver's stands for, looked at inside of this context.
    pub(crate) fn fault(&self, code: Code) -> Fault {
        self.device.fault(code)
    }

    /// Calls the driver.
    pub(crate) fn ask<T>(&self, call: impl FnOnce(&V) -> Answer<T>) -> Result<T, Fault> {
        call(self.vendor()).map_err(|code| self.fault(code))
    }
}

impl<V: Vendor> Drop for Entered<'_, V> {
    fn drop(&mut self) {
        self.vendor().mind_captures(self.captures);
        self.vendor().leave(self.before);
    }
}
