//! The hooks for memory that host and device share: registered, adopted, and mapped.
#![expect(
    unsafe_code,
    reason = "hooks that take raw memory are unsafe to implement"
)]

use std::ffi::c_void;

use crossdock_sdk::abi::{Address, AdoptFlags, MemoryKind, Status};
use crossdock_sdk::plugin::{Adopt, Error, Map, Register};
use crossdock_sim_engine::{self as sim, Access, Site};

use crate::answer::refused;
use crate::device::is_integrated;
use crate::lent::{Entered, Origin};
use crate::plugin::Asynchronous;

impl Asynchronous {
    fn check_range(
        &self,
        operation: &'static str,
        device: u32,
        (start, size): (u64, u64),
    ) -> Result<(), Error> {
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        if start == 0 || size == 0 || start.checked_add(size).is_none() {
            return Err(Error::new(
                Status::INVALID,
                operation,
                "no range of addresses",
            ));
        }
        Ok(())
    }

    /// Waits until the work on memory with this base is over.
    fn settle(&self, operation: &'static str, base: u64) -> Result<(), Error> {
        let settled = self.uses.settle(&self.engine, base);
        settled.map_err(|error| refused(operation, &error))
    }
}

impl Register for Asynchronous {
    unsafe fn register_host(
        &self,
        device: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), Error> {
        let operation = "register_host";
        let start = pointer.expose_provenance() as u64;
        self.check_range(operation, device, (start, size))?;
        let is_ours = self.engine.owner_of(start).is_some();
        if is_ours || self.lent.register(start, size, device) != Entered::New {
            let why = "a part of it is known already";
            return Err(Error::new(Status::CONFLICT, operation, why));
        }
        let registered = self
            .engine
            .register_host(Site::new(operation), device, start, size);
        registered.map_err(|error| {
            self.lent.unregister(start, device);
            refused(operation, &error)
        })
    }

    fn unregister_host(&self, device: u32, pointer: *mut c_void) -> Result<(), Error> {
        let operation = "unregister_host";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let start = pointer.addr() as u64;
        let not_owner = || Error::new(Status::NOT_OWNER, operation, "this was not registered");
        if self.lent.origin(start) != Some(Origin::Registered(device)) {
            return Err(not_owner());
        }
        let end = || {
            let is_known_no_more = self.lent.unregister(start, device);
            if !is_known_no_more.ok_or_else(not_owner)? {
                return Ok(());
            }
            self.uses.forget(start);
            let done = self.engine.unregister_host(Site::new(operation), start);
            done.map_err(|error| refused(operation, &error))
        };
        let ended = self.uses.end(&self.engine, start, end);
        ended.map_err(|error| refused(operation, &error))?
    }
}

impl Adopt for Asynchronous {
    unsafe fn adopt(
        &self,
        device: u32,
        foreign: Address,
        kind: MemoryKind,
        size: u64,
        _flags: AdoptFlags,
    ) -> Result<Address, Error> {
        let operation = "adopt";
        let is_host = matches!(kind, MemoryKind::HOST | MemoryKind::PINNED);
        let start = foreign
            .as_pointer()
            .filter(|_| is_host && is_integrated(device));
        let start = start.ok_or_else(|| Error::unsupported(operation))?;
        self.check_range(operation, device, (start, size))?;
        let allocation = self
            .engine
            .owner_of(start)
            .filter(|owner| !owner.is_registered);
        if let Some(owner) = allocation {
            let is_inside = start - owner.base <= owner.bytes.saturating_sub(size);
            if owner.kind == sim::MemoryKind::Device || !is_inside {
                return Err(Error::unsupported(operation));
            }
            self.lent.adopt_inside(start, owner.base);
            return Ok(Address::pointer(start));
        }
        let _kept = self.uses.keep();
        match self.lent.adopt(start, size) {
            Entered::Overlaps => Err(Error::unsupported(operation)),
            Entered::Inside(_) => Ok(Address::pointer(start)),
            Entered::New => {
                let site = Site::new(operation);
                let registered = self.engine.register_host(site, device, start, size);
                registered.map_err(|error| {
                    self.lent.release(start);
                    refused(operation, &error)
                })?;
                Ok(Address::pointer(start))
            }
        }
    }

    fn release_adopted(&self, device: u32, adopted: Address) -> Result<(), Error> {
        let operation = "release_adopted";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let not_owner = || {
            let why = "this address was not adopted";
            Error::new(Status::NOT_OWNER, operation, why)
        };
        let address = adopted.as_pointer().ok_or_else(not_owner)?;
        let base = self.lent.adopted(address).ok_or_else(not_owner)?;
        let end = || {
            let (base, is_last) = self.lent.release(address).ok_or_else(not_owner)?;
            if !is_last {
                return Ok(());
            }
            self.uses.forget(base);
            let done = self.engine.unregister_host(Site::new(operation), base);
            done.map_err(|error| refused(operation, &error))
        };
        let ended = self.uses.end(&self.engine, base, end);
        ended.map_err(|error| refused(operation, &error))?
    }
}

impl Map for Asynchronous {
    fn map(&self, device: u32, address: Address, size: u64) -> Result<*mut c_void, Error> {
        let operation = "map";
        self.check_open(operation)?;
        self.check_index(operation, device)?;
        let word = address
            .as_pointer()
            .ok_or_else(|| Error::unsupported(operation))?;
        let owner = self
            .engine
            .owner_of(word)
            .filter(|owner| owner.device == device);
        let owner = owner.ok_or_else(|| {
            let why = format!("no memory of device {device} is at {word:#x}");
            Error::new(Status::NOT_OWNER, operation, why)
        })?;
        if !is_integrated(device) {
            return Err(Error::unsupported(operation));
        }
        if size > owner.bytes - (word - owner.base) {
            let why = "the mapping reaches past its allocation";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        self.settle(operation, owner.base)?;
        // Host memory has one address.
        let view = if owner.is_registered {
            std::ptr::with_exposed_provenance_mut(usize::try_from(word).unwrap_or(0))
        } else {
            let view = self.engine.host_view(word);
            view.ok_or_else(|| Error::unsupported(operation))?.as_ptr()
        };
        self.views.add(view.expose_provenance() as u64, word, size);
        // What the host does with a view is seen by nobody; it reads at least what is there now.
        self.engine
            .touch(Site::new(operation), word, size, Access::Read);
        Ok(view.cast())
    }

    fn unmap(&self, device: u32, address: Address, pointer: *mut c_void) -> Result<(), Error> {
        let operation = "unmap";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let view = pointer.addr() as u64;
        let word = address.as_pointer();
        if word.is_some_and(|word| self.views.remove(view, word)) {
            return Ok(());
        }
        let why = "this is no mapping of that address";
        Err(Error::new(Status::NOT_OWNER, operation, why))
    }
}
