//! Memory: allocated, freed, in a stream's order or at once, and who owns an address.
#![expect(unsafe_code, reason = "hooks that free memory are unsafe to implement")]

use crossdock_sdk::abi::{
    Address, AllocateArgs, MemoryKind, MemoryUsage, PointerFlags, PointerInfo, Side, Status,
    StreamHandle,
};
use crossdock_sdk::plugin::{AsyncMemory, Error, Pool};
use crossdock_sim_engine::{self as sim, Site};

use crate::answer::refused;
use crate::device::is_integrated;
use crate::lent::Origin;
use crate::plugin::{Asynchronous, lock};

impl Asynchronous {
    pub(crate) fn allocate_now(&self, args: AllocateArgs) -> Result<Address, Error> {
        let operation = "allocate";
        self.check_open(operation)?;
        self.check_index(operation, args.device)?;
        let kind = match args.kind {
            MemoryKind::DEVICE => sim::MemoryKind::Device,
            MemoryKind::PINNED => sim::MemoryKind::Pinned,
            MemoryKind::MANAGED if is_integrated(args.device) => sim::MemoryKind::Managed,
            _ => return Err(Error::unsupported(operation)),
        };
        let site = Site::new(operation);
        let given = self
            .engine
            .allocate(site, args.device, args.size, args.alignment, kind);
        self.keep_memory(operation, given, args.kind)
    }

    fn keep_memory(
        &self,
        operation: &'static str,
        given: Result<u64, sim::Error>,
        kind: MemoryKind,
    ) -> Result<Address, Error> {
        let base = given.map_err(|error| refused(operation, &error))?;
        lock(&self.allocated).insert(base, kind);
        Ok(Address::pointer(base))
    }

    pub(crate) fn free_now(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        let operation = "free";
        self.check_alive(operation)?;
        let free = |base| self.engine.free(Site::new(operation), base);
        self.give_up(operation, address, Some(kind), free)
    }

    /// Takes an allocation out of the table and frees it; one that is not freed goes back.
    fn give_up(
        &self,
        operation: &'static str,
        address: Address,
        kind: Option<MemoryKind>,
        free: impl FnOnce(u64) -> Result<(), sim::Error>,
    ) -> Result<(), Error> {
        let not_owner = || {
            let why = "no allocation of this kind begins here";
            Error::new(Status::NOT_OWNER, operation, why)
        };
        let base = address.as_pointer().ok_or_else(not_owner)?;
        let mut allocated = lock(&self.allocated);
        let known = *allocated.get(&base).ok_or_else(not_owner)?;
        if kind.is_some_and(|kind| kind != known) {
            return Err(not_owner());
        }
        allocated.remove(&base);
        drop(allocated);
        // Before it is freed: then the address may be that of other memory.
        let uses = self.uses.take(base);
        if let Err(error) = free(base) {
            self.uses.restore(base, uses);
            lock(&self.allocated).insert(base, known);
            return Err(refused(operation, &error));
        }
        Ok(())
    }

    /// Who owns an address, as the engine and the books know it.
    pub(crate) fn look_up(&self, asked: Address) -> PointerInfo {
        let Some(word) = asked.as_pointer() else {
            return PointerInfo::default();
        };
        // A view of the host's is another address of the same bytes.
        let view = self.views.device_address(word);
        let device_pointer = view.unwrap_or(word);
        let Some(owner) = self.engine.owner_of(device_pointer) else {
            return PointerInfo::default();
        };
        let origin = if owner.is_registered {
            self.lent.origin(owner.base)
        } else {
            None
        };
        let is_adopted = matches!(origin, Some(Origin::Adopted(_)));
        let kind = match owner.kind {
            sim::MemoryKind::Pinned if !is_adopted => MemoryKind::PINNED,
            sim::MemoryKind::Managed => MemoryKind::MANAGED,
            _ => MemoryKind::DEVICE,
        };
        let is_seen = view.is_some() || owner.kind != sim::MemoryKind::Device;
        let facts = [
            (is_seen, PointerFlags::HOST_ACCESSIBLE),
            (kind == MemoryKind::MANAGED, PointerFlags::MANAGED),
            (owner.is_registered, PointerFlags::FOREIGN),
        ];
        let flags = facts
            .into_iter()
            .filter_map(|(holds, flag)| holds.then_some(flag))
            .collect();
        PointerInfo {
            kind,
            device: owner.device,
            base: Address::pointer(owner.base),
            size: owner.bytes,
            allocation_id: self.number << 40 | owner.id,
            host_pointer: if is_seen { word } else { 0 },
            device_pointer,
            context: 0,
            flags,
            reserved: 0,
        }
    }

    /// The address of one side of a copy, of which `low..high` bytes around it are touched.
    pub(crate) fn side(
        &self,
        operation: &'static str,
        side: &Side,
        (low, high): (i64, i64),
    ) -> Result<u64, Error> {
        let invalid = |why: &'static str| Error::new(Status::INVALID, operation, why);
        let word = side
            .address
            .as_pointer()
            .ok_or_else(|| Error::unsupported(operation))?;
        let first = word.checked_add_signed(low).filter(|first| *first > 0);
        let end = word.checked_add_signed(high);
        let (Some(first), Some(end)) = (first, end) else {
            return Err(invalid("a side leaves the address space"));
        };
        let owner = self.engine.owner_of(word);
        if side.kind == MemoryKind::HOST {
            return match owner {
                Some(owner) if owner.kind == sim::MemoryKind::Device => Err(invalid(
                    "the memory is a device's, and the host cannot touch it",
                )),
                _ => Ok(word),
            };
        }
        self.check_index(operation, side.device)?;
        let owner = owner
            .filter(|owner| owner.kind != sim::MemoryKind::Device || owner.device == side.device);
        let owner = owner.ok_or_else(|| {
            let why = format!("no memory of device {} is at {word:#x}", side.device);
            Error::new(Status::NOT_OWNER, operation, why)
        })?;
        if first < owner.base || end - owner.base > owner.bytes {
            return Err(invalid("a side reaches past its allocation"));
        }
        Ok(word)
    }
}

impl AsyncMemory for Asynchronous {
    fn allocate_async(&self, stream: StreamHandle, size: u64) -> Result<Address, Error> {
        let operation = "allocate_async";
        self.check_open(operation)?;
        let host_stream = self.host_stream(operation, stream)?;
        let given = self
            .engine
            .allocate_on(Site::new(operation), host_stream.stream, size);
        self.keep_memory(operation, given, MemoryKind::DEVICE)
    }

    unsafe fn free_async(&self, stream: StreamHandle, address: Address) -> Result<(), Error> {
        let operation = "free_async";
        let host_stream = self.host_stream(operation, stream)?;
        let free = |base| {
            self.engine
                .free_on(Site::new(operation), host_stream.stream, base)
        };
        self.give_up(operation, address, Some(MemoryKind::DEVICE), free)
    }
}

impl Pool for Asynchronous {
    fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error> {
        let operation = "memory_trim";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let trimmed = self.engine.trim(Site::new(operation), device, keep_bytes);
        trimmed.map_err(|error| refused(operation, &error))
    }

    fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error> {
        let operation = "memory_usage";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let usage = self.engine.memory_usage(device);
        let usage = usage.map_err(|error| refused(operation, &error))?;
        Ok(MemoryUsage {
            reserved: usage.reserved,
            used: usage.used,
            peak_reserved: usage.peak_reserved,
            peak_used: usage.peak_used,
        })
    }

    fn memory_reset_peaks(&self, device: u32) -> Result<(), Error> {
        let operation = "memory_reset_peaks";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let reset = self.engine.reset_peaks(device);
        reset.map_err(|error| refused(operation, &error))
    }
}
