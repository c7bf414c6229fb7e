//! The ends of a copy: whose memory they are, as the table and the driver know it, and not as the caller says.

use std::sync::Arc;

use crossdock_sdk::abi::{MemoryKind, Side, Status};

use crate::current::Entered;
use crate::device::Device;
use crate::fault::Fault;
use crate::memory::Allocation;
use crate::native::NativeEvent;
use crate::plugin::Gpu;
use crate::pointers::plain_address;
use crate::stream::Stream;
use crate::users::InUse;
use crate::vendor::{ErrorKind, Kind, Known, Vendor};
use crate::work::finish;

/// One end of a copy.
#[derive(Debug)]
pub(crate) struct Place<V: Vendor> {
    pub(crate) address: u64,
    /// None for pageable memory, of which the driver knows nothing.
    pub(crate) kind: Option<Kind>,
    /// The device that the driver or this plugin says it belongs to.
    pub(crate) device: Option<Arc<Device<V>>>,
    /// The context of memory that others made.
    context: Option<u64>,
    allocation: Option<InUse<V>>,
}

/// Memory that this plugin knows by itself, or what the driver knows of other memory.
enum Memory<V: Vendor> {
    Known(InUse<V>),
    OfOthers(Option<Known>),
}

/// How many bytes of an end are used: before its address (where strides go backwards) and from it on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

impl<V: Vendor> Place<V> {
    /// Whether it is memory that is not locked: the driver makes the caller wait for its copies.
    pub(crate) const fn is_pageable(&self) -> bool {
        self.kind.is_none()
    }

    /// Whether it is memory of the host.
    pub(crate) const fn is_host(&self) -> bool {
        matches!(self.kind, None | Some(Kind::Pinned))
    }

    /// The context that the memory belongs to.
    pub(crate) fn context(&self, operation: &'static str) -> Result<u64, Fault> {
        match (self.context, &self.device) {
            // The driver names the device's own context for memory of pools, also where nobody has retained that one.
            (Some(context), Some(device)) => device.home(operation).map(|_home| context),
            (Some(context), None) => Ok(context),
            (None, Some(device)) => Ok(device.home(operation)?.context),
            (None, None) => Ok(0),
        }
    }

    /// Lets a stream wait until it may use the memory.
    pub(crate) fn get_ready(&self, inside: &Entered<'_, V>, stream: u64) -> Result<(), Fault> {
        let allocation = self.allocation.as_ref();
        allocation.map_or(Ok(()), |allocation| allocation.get_ready(inside, stream))
    }

    /// Remembers that work on the stream uses host memory that may be unlocked. Where its end cannot be marked, this
    /// thread waits for it: nobody could say later whether the memory is free.
    pub(crate) fn used_on(&self, inside: &Entered<'_, V>, stream: &Stream<V>) -> Result<(), Fault> {
        let Some(registered) = self.registered() else {
            return Ok(());
        };
        let mark = || NativeEvent::record_for_good(stream, inside);
        // The work is on the stream, so a failed mark is no failure of the work: it is tried once more.
        let Ok(point) = mark().or_else(|_| mark()) else {
            return finish(inside, stream.raw);
        };
        registered.used_until(&point);
        Ok(())
    }

    /// Remembers of host memory that may be unlocked that work with it was begun on a device which is lost: nobody can
    /// tell whether that is over.
    pub(crate) fn note_loss(&self, ends: [&Result<(), Fault>; 2]) {
        let is_loss = |fault: &&Fault| fault.status == Status::DEVICE_LOST;
        let mut failures = ends.into_iter().filter_map(|end| end.as_ref().err());
        if let Some(registered) = self.registered()
            && let Some(loss) = failures.find(is_loss)
        {
            registered.abandon(loss);
        }
    }

    fn registered(&self) -> Option<&Allocation<V>> {
        let allocation = self.allocation.as_deref();
        allocation.filter(|found| found.is_registered())
    }
}

impl<V: Vendor> Gpu<V> {
    /// The memory that a side names. Device memory that neither this plugin nor the driver knows is refused.
    pub(crate) fn place(
        &self,
        side: &Side,
        reach: Reach,
        operation: &'static str,
    ) -> Result<Place<V>, Fault> {
        let is_host = side.kind == MemoryKind::HOST;
        if !is_host {
            self.device(side.device, operation)?;
        }
        let address = plain_address(side.address);
        let address = address.filter(|address| *address != 0).ok_or_else(|| {
            let why = "memory of this plugin is named by its address";
            match side.address.word {
                0 => Fault::not_owner(operation, "null is nobody's memory"),
                _ => Fault::not_owner(operation, why),
            }
        })?;
        let known = match self.memory_at(address)? {
            Memory::OfOthers(known) => known,
            Memory::Known(found) => {
                inside_of(found.address, found.size, address, reach, operation)?;
                return Ok(Place {
                    address,
                    kind: Some(found.kind()),
                    device: Some(found.working_device()),
                    context: None,
                    allocation: Some(found),
                });
            }
        };
        if let Some(known) = known {
            // Not every driver tells the size of an allocation that others made.
            let fits = match known.size {
                0 => Ok(()),
                size => inside_of(known.base, size, address, reach, operation),
            };
            if !is_host || fits.is_ok() {
                fits?;
                let device = self.of_ordinal(known.ordinal, operation)?;
                return Ok(Place {
                    address,
                    kind: Some(known.kind),
                    device: Some(Arc::clone(device)),
                    context: Some(known.context).filter(|context| *context != 0),
                    allocation: None,
                });
            }
        }
        // Memory that another plugin pinned is host memory for this one.
        if is_host || side.kind == MemoryKind::PINNED {
            return Ok(Place {
                address,
                kind: None,
                device: None,
                context: None,
                allocation: None,
            });
        }
        let why = format!("{address:#x} is no memory that this plugin or the driver knows");
        Err(Fault::not_owner(operation, why))
    }

    /// The memory at an address, as the table has it, or else the driver.
    fn memory_at(&self, address: u64) -> Result<Memory<V>, Fault> {
        loop {
            let registrations = self.pointers.registrations();
            if let Some(found) = self.pointers.find(address) {
                // Where its registration has ended meanwhile, the table no longer has it.
                match InUse::begin(found) {
                    Some(found) => return Ok(Memory::Known(found)),
                    None => continue,
                }
            }
            let known = self.known_of_others(address)?;
            // Else the driver may know it because it was registered here in between.
            if registrations == self.pointers.registrations() {
                return Ok(Memory::OfOthers(known));
            }
        }
    }

    /// What the driver knows of an address, other than what this plugin keeps for itself.
    pub(crate) fn known_of_others(&self, address: u64) -> Result<Option<Known>, Fault> {
        if self
            .devices
            .iter()
            .any(|device| device.blocks.contains(address))
        {
            return Ok(None);
        }
        let vendor = self.driver.vendor();
        let code = match vendor.known(address) {
            Ok(known) => return Ok(known),
            Err(code) => code,
        };
        // Some drivers answer only inside of a context.
        let homes = self
            .devices
            .iter()
            .filter(|device| device.known_home().is_some());
        let ask = |device: &Arc<Device<V>>| {
            device
                .enter("pointer_query")?
                .ask(|vendor| vendor.known(address))
        };
        let again = homes
            .filter(|_| V::error_kind(code) == ErrorKind::Stale)
            .map(ask);
        let again = again.into_iter().find_map(Result::ok);
        again.ok_or_else(|| self.driver.fault(code))
    }

    /// The device with a number of the driver's.
    pub(crate) fn of_ordinal(
        &self,
        ordinal: i32,
        operation: &'static str,
    ) -> Result<&Arc<Device<V>>, Fault> {
        let index = u32::try_from(ordinal).unwrap_or(u32::MAX);
        self.device(index, operation)
    }
}

/// Refuses an end that leaves its allocation.
fn inside_of(
    base: u64,
    size: u64,
    address: u64,
    reach: Reach,
    operation: &'static str,
) -> Result<(), Fault> {
    let first = address.checked_sub(reach.before);
    let last = address.checked_add(reach.after);
    let end = base.saturating_add(size);
    if first.is_some_and(|first| first >= base) && last.is_some_and(|last| last <= end) {
        return Ok(());
    }
    let why = format!(
        "{} bytes at {address:#x} are not inside of the {size} bytes at {base:#x}",
        reach.before.saturating_add(reach.after)
    );
    Err(Fault::invalid(operation, why))
}
