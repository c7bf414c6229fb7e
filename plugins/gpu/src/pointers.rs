//! The table of memory that this plugin made or locked, and what the driver knows of other addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind, PointerFlags, PointerInfo};
use crossdock_sdk::handles::Handles;
use crossdock_sdk::pointers::{PointerEntry, PointerTable};

use crate::fault::Fault;
use crate::memory::Allocation;
use crate::vendor::{Kind, Known, Vendor};

/// Every allocation that is not freed yet.
#[derive(Debug)]
pub(crate) struct Pointers<V: Vendor> {
    known: Handles<u64, Allocation<V>>,
    addresses: PointerTable,
    /// Counts the registrations that were entered, each before the driver knows of it.
    registrations: AtomicU64,
}

impl<V: Vendor> Pointers<V> {
    pub(crate) fn new() -> Self {
        Self {
            known: Handles::new(),
            addresses: PointerTable::new(),
            registrations: AtomicU64::new(0),
        }
    }

    /// Enters an allocation.
    pub(crate) fn insert(
        &self,
        operation: &'static str,
        new: Arc<Allocation<V>>,
    ) -> Result<Arc<Allocation<V>>, Fault> {
        let number = self.known.insert(operation, Arc::clone(&new))?;
        let range = PointerEntry::new(new.address, new.size, new.id, number);
        self.addresses.insert(range).map_err(|error| {
            drop(self.known.remove(operation, number));
            Fault::not_entered(operation, &error)
        })?;
        if new.is_registered() {
            self.registrations.fetch_add(1, Ordering::AcqRel);
        }
        Ok(new)
    }

    /// How many registrations were entered so far.
    pub(crate) fn registrations(&self) -> u64 {
        self.registrations.load(Ordering::Acquire)
    }

    /// The allocation around an address.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Allocation<V>>> {
        let entry = self.addresses.lookup(address)?;
        // Also None where another thread took it out meanwhile.
        self.known.find("pointer_query", entry.payload).ok()
    }

    /// Takes out the allocation that begins at an address, if `fits` accepts it. Does not free it.
    pub(crate) fn remove(
        &self,
        address: u64,
        operation: &'static str,
        fits: impl Fn(&Allocation<V>) -> bool,
    ) -> Result<Arc<Allocation<V>>, Fault> {
        let found = self.addresses.take_if(address, |entry| {
            let found = self.known.find(operation, entry.payload);
            found.is_ok_and(|found| fits(&found))
        });
        let entry = found.ok_or_else(|| {
            let why = "the address is not the start of such memory of this plugin";
            Fault::not_owner(operation, why)
        })?;
        Ok(self.known.remove(operation, entry.payload)?)
    }

    /// Takes out all allocations.
    pub(crate) fn drain(&self) -> Vec<Arc<Allocation<V>>> {
        self.known.drain()
    }
}

/// What a query answers for memory of the plugin's own.
pub(crate) fn describe<V: Vendor>(found: &Allocation<V>, address: u64) -> PointerInfo {
    let kind = found.kind();
    let mut flags = flags_of(kind);
    if found.is_registered() {
        flags = flags.with(PointerFlags::FOREIGN);
    }
    let device = found.working_device();
    let home = device.known_home();
    PointerInfo {
        kind: memory_kind(kind),
        device: device.index,
        base: Address::pointer(found.address),
        size: found.size,
        allocation_id: found.id,
        host_pointer: if kind == Kind::Device { 0 } else { address },
        device_pointer: address,
        context: home.map_or(0, |home| home.context),
        flags,
        reserved: 0,
    }
}

/// What a query answers for memory that the driver knows and others made.
pub(crate) fn describe_foreign(known: &Known, address: u64, device: u32) -> PointerInfo {
    let base = if known.size == 0 { address } else { known.base };
    PointerInfo {
        kind: memory_kind(known.kind),
        device,
        base: Address::pointer(base),
        size: known.size,
        allocation_id: known.id,
        host_pointer: known.host_pointer,
        device_pointer: known.device_pointer,
        context: known.context,
        flags: flags_of(known.kind).with(PointerFlags::FOREIGN),
        reserved: 0,
    }
}

fn flags_of(kind: Kind) -> PointerFlags {
    let flags = PointerFlags::empty();
    match kind {
        Kind::Device => flags,
        Kind::Pinned => flags.with(PointerFlags::HOST_ACCESSIBLE),
        Kind::Managed => flags
            .with(PointerFlags::HOST_ACCESSIBLE)
            .with(PointerFlags::MANAGED),
    }
}

/// The contract's name of a kind.
pub(crate) const fn memory_kind(kind: Kind) -> MemoryKind {
    match kind {
        Kind::Device => MemoryKind::DEVICE,
        Kind::Pinned => MemoryKind::PINNED,
        Kind::Managed => MemoryKind::MANAGED,
    }
}

/// An address that is a number; none where it is an object.
pub(crate) fn plain_address(address: Address) -> Option<u64> {
    let is_pointer = address.form == AddressForm::POINTER;
    address.as_pointer().filter(|_| is_pointer)
}
