//! The hooks for registered host memory.
#![expect(unsafe_code, reason = "host addresses arrive as plain words")]

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::plugin::{Error, Register};

use crate::device::Device;
use crate::fault::Fault;
use crate::memory::{Allocation, Source};
use crate::plugin::Gpu;
use crate::vendor::Vendor;

impl<V: Vendor> Register for Gpu<V> {
    unsafe fn register_host(
        &self,
        device: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), Error> {
        let operation = "register_host";
        self.check(operation)?;
        let device = self.device(device, operation)?;
        let address = pointer.expose_provenance() as u64;
        if address == 0 {
            return Err(Fault::invalid(operation, "the address is null").into());
        }
        if let Some(known) = self.pointers.find(address) {
            return Ok(register_again(&known, device, address, size)?);
        }
        let made = Allocation::new(device, address, size, Source::Registered);
        // Into the table before it is registered: the table refuses ranges that overlap.
        self.pointers.insert(operation, Arc::new(made))?;
        let inside = device.enter(operation);
        let done = inside.and_then(|inside| {
            // SAFETY: the caller vouches for the range until it is unregistered.
            inside.ask(|vendor| unsafe { vendor.register_host(address, size) })
        });
        done.map_err(|fault| {
            let is_registered = Allocation::is_registered;
            drop(self.pointers.remove(address, operation, is_registered));
            Error::from(match fault.status {
                Status::OOM_DEVICE => fault.with_status(Status::OOM_HOST),
                Status::INVALID | Status::UNSUPPORTED => fault.with_status(Status::PERMISSION),
                _ => fault,
            })
        })
    }

    fn unregister_host(&self, device: u32, pointer: *mut c_void) -> Result<(), Error> {
        let operation = "unregister_host";
        self.driver.process.check(operation)?;
        let device = self.device(device, operation)?;
        let address = pointer.expose_provenance() as u64;
        let found = self.pointers.find(address);
        let found = found.filter(|found| found.address == address && found.is_registered());
        let found = found.ok_or_else(not_registered)?;
        // No call begins to use the memory while this is held.
        let mut holders = found.change_holders();
        let place = holders.iter().position(|one| Arc::ptr_eq(one, device));
        let place = place.ok_or_else(not_registered)?;
        // Memory of a lost device stays registered for it, and so for the others too.
        device.check(operation)?;
        if holders.len() == 1 {
            unregister_after_work(&found, Deadline::after(Some(Duration::ZERO)))?;
            // Before a call that waits to use it looks for it again.
            let is_registered = Allocation::is_registered;
            drop(self.pointers.remove(address, operation, is_registered));
        }
        holders.swap_remove(place);
        Ok(())
    }
}

/// Waits for the work that uses registered memory, and ends the registration; `NOT_READY` where the work goes on after
/// the deadline. Where a device that it is registered for, or that worked with it, is lost, it stays registered: the
/// driver no longer ends that, or it is unknown whether the work is over.
pub(crate) fn unregister_after_work<V: Vendor>(
    gone: &Allocation<V>,
    deadline: Deadline,
) -> Result<(), Fault> {
    gone.wait_for_users(deadline)?;
    let inside = gone.device.enter("unregister_host")?;
    // SAFETY: the work that uses it is over, and no call begins to use it: its caller has the holders, or the plugin is
    // closed.
    inside.ask(|vendor| unsafe { vendor.unregister_host(gone.address) })
}

/// Registers memory for one more device. The driver knows it already, for all devices.
fn register_again<V: Vendor>(
    known: &Allocation<V>,
    device: &Arc<Device<V>>,
    address: u64,
    size: u64,
) -> Result<(), Fault> {
    let mut holders = known.change_holders();
    let is_same = known.is_registered() && known.address == address && known.size == size;
    let is_known = holders.iter().any(|holder| Arc::ptr_eq(holder, device));
    if !is_same || holders.is_empty() || is_known {
        let why = "a part of it is registered or allocated here already";
        return Err(Fault::new(Status::CONFLICT, "register_host", why));
    }
    holders.push(Arc::clone(device));
    Ok(())
}

fn not_registered() -> Fault {
    let why = "no memory that is registered for the device begins here";
    Fault::not_owner("unregister_host", why)
}
