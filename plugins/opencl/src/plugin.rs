//! The plugin as the contract sees it: its devices and its memory.
#![expect(
    unsafe_code,
    reason = "freeing and copying are unsafe to call in the contract"
)]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use crossdock_sdk::{
    abi::{
        Address, AddressForm, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, EventHandle,
        MemoryInfo, MemoryKind, MemoryUsage, PointerFlags, PointerInfo, ProbeInfo, QueryCost,
        StreamHandle,
    },
    deadline::{Deadline, limit},
    dlpack::DeviceType,
    handles::Handles,
    log,
    plugin::{Error, Groups, Host, Plugin, Pool, describe, fixed_text},
};

use crate::{
    convert,
    deferred::Deferred,
    device::Device,
    driver::{self, Driver, Presence},
    event::Event,
    fault::{Fault, Kind},
    host_call::HostCalls,
    memory::{Allocation, Flavour},
    pointers::Pointers,
    progress::is_over,
    stream::Stream,
    view::Access,
};

/// OpenCL, opened.
#[derive(Debug)]
pub struct OpenCl {
    pub(crate) driver: Driver,
    pub(crate) pointers: Pointers,
    pub(crate) streams: Handles<StreamHandle, Stream>,
    pub(crate) events: Handles<EventHandle, Event>,
    /// Each device's default stream, once somebody asked.
    pub(crate) defaults: Mutex<Vec<Option<StreamHandle>>>,
    pub(crate) host_calls: HostCalls,
    pub(crate) deferred: Deferred,
    retired: AtomicBool,
}

impl Plugin for OpenCl {
    const DESCRIPTION: &'static str = describe!(
        name = "opencl",
        vendor = "Crossdock",
        devices = "opencl",
        driver = "libOpenCL.so.1"
    );
    const GROUPS: Groups<Self> = Groups::new()
        .streams()
        .wrap()
        .host_events()
        .host_calls()
        .timing()
        .strided()
        .fill()
        .adopt()
        .map()
        .register()
        .async_memory()
        .pool();
    const QUERY_COST: QueryCost = QueryCost::TABLE;

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(match driver::look() {
            Presence::Ready { devices, version } => ProbeInfo::ready(devices, &version),
            Presence::Absent { what, looked } => {
                ProbeInfo::absent(&format!("{what}: looked for {}", looked.join(", ")))
            }
            Presence::Broken { why } => ProbeInfo::broken(&why),
        })
    }

    fn open(_: Host) -> Result<Self, Error> {
        let driver = Driver::open()?;
        Ok(Self {
            defaults: Mutex::new(vec![None; driver.devices.len()]),
            driver,
            pointers: Pointers::default(),
            streams: Handles::new(),
            events: Handles::new(),
            host_calls: HostCalls::default(),
            deferred: Deferred::default(),
            retired: AtomicBool::new(false),
        })
    }

    fn device_count(&self) -> u32 {
        u32::try_from(self.driver.devices.len()).unwrap_or(u32::MAX)
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        let found = self.device(device, "device_info")?;
        let facts = &found.facts;
        let pci = facts
            .pci
            .map_or_else(String::new, |[domain, bus, slot, function]| {
                format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
            });
        let runtime = format!("{} ({})", facts.runtime_version, found.platform.version);
        let mut info = DeviceInfo::new(DeviceType::OPENCL, device, &facts.name);
        info.uuid = facts.uuid;
        info.pci_bus_id = fixed_text(&pci);
        info.driver_version = fixed_text(&facts.driver_version);
        info.runtime_version = fixed_text(&runtime);
        info.total_memory = facts.memory_bytes;
        info.capabilities = capabilities(found);
        info.address_form = AddressForm::HANDLE;
        Ok(info)
    }

    fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error> {
        let total = self.device(device, "memory_info")?.facts.memory_bytes;
        // OpenCL has no question for free memory.
        Ok(MemoryInfo {
            free: u64::MAX,
            total,
        })
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let device = self.device(args.device, "allocate")?;
        self.allocate_on(device, args.kind, args.size, args.alignment)
            .map_err(Error::from)
    }

    unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        drop(self.forget(address, kind, "free")?);
        Ok(())
    }

    unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error> {
        // SAFETY: `copy_bytes` needs what `copy` needs: the caller promises it.
        unsafe { self.copy_bytes(&args, stream) }.map_err(Error::from)
    }

    /// Inlined, so that the usual answer is written where the host reads it.
    #[inline(always)]
    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        if address.form == AddressForm::POINTER && self.knows_no_address() {
            return Ok(PointerInfo::default());
        }
        Ok(self.look_up(address))
    }

    fn retire(&self, deadline_ns: u64) -> Result<(), Error> {
        self.retired.store(true, Ordering::Release);
        self.driver.driver_state.check("retire")?;
        let deadline = Deadline::after(limit(deadline_ns));
        for stream in self.streams.all() {
            // A stream whose work failed is as drained as one whose work succeeded.
            if !stream.drain(deadline.left())? {
                let why = "a stream still has work";
                return Err(Fault::new(Kind::Timeout, "retire", why).into());
            }
        }
        self.deferred.sweep(is_over);
        for device in &self.driver.devices {
            device.pool.close();
        }
        Ok(())
    }

    fn at_fork_child(&self) {
        self.driver.driver_state.forked();
    }

    fn at_exit(&self) {
        self.driver.driver_state.exit();
    }
}

impl Pool for OpenCl {
    fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error> {
        let operation = "memory_trim";
        self.driver.driver_state.check(operation)?;
        let device = self.device(device, operation)?;
        // What waits for its stream and is over is free too.
        self.deferred.sweep(is_over);
        device
            .pool
            .trim(usize::try_from(keep_bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error> {
        let operation = "memory_usage";
        self.driver.driver_state.check(operation)?;
        self.deferred.sweep(is_over);
        Ok(self.device(device, operation)?.pool.usage())
    }

    fn memory_reset_peaks(&self, device: u32) -> Result<(), Error> {
        let operation = "memory_reset_peaks";
        self.driver.driver_state.check(operation)?;
        self.device(device, operation)?.pool.reset_peaks();
        Ok(())
    }
}

impl OpenCl {
    /// The device with this index.
    pub(crate) fn device(
        &self,
        index: u32,
        operation: &'static str,
    ) -> Result<&Arc<Device>, Fault> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.driver.devices.get(index))
            .ok_or_else(|| Fault::invalid(operation, format!("there is no device {index}")))
    }

    /// Refuses new work after a fork, an exit or `retire`.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), Fault> {
        self.driver.driver_state.check(operation)?;
        if self.retired.load(Ordering::Acquire) {
            return Err(Fault::new(
                Kind::Retired,
                operation,
                "the plugin was retired",
            ));
        }
        Ok(())
    }

    /// Allocates and makes it known.
    pub(crate) fn allocate_on(
        &self,
        device: &Arc<Device>,
        kind: MemoryKind,
        size: u64,
        alignment: u64,
    ) -> Result<Address, Fault> {
        self.check("allocate")?;
        if let Some(fault) = self.driver.driver_state.take_late() {
            return Err(fault);
        }
        self.deferred.sweep_few(is_over);
        let made = match Self::made_on(device, kind, size, alignment) {
            Err(fault) if is_memory_short(&fault) => {
                self.deferred.sweep(is_over);
                Self::made_on(device, kind, size, alignment)?
            }
            made => made?,
        };
        let made = self.pointers.insert(made)?;
        Ok(base_of(&made))
    }

    fn made_on(
        device: &Arc<Device>,
        kind: MemoryKind,
        size: u64,
        alignment: u64,
    ) -> Result<Allocation, Fault> {
        match kind {
            MemoryKind::DEVICE => Allocation::device(device, size, alignment),
            MemoryKind::PINNED => Allocation::pinned(device, size, alignment),
            MemoryKind::MANAGED => Allocation::managed(device, size, alignment),
            _ => Err(Fault::unsupported("allocate", "no such kind of memory")),
        }
    }

    /// Takes an allocation out of the table; dropping it frees it.
    pub(crate) fn forget(
        &self,
        address: Address,
        kind: MemoryKind,
        operation: &'static str,
    ) -> Result<Option<Arc<Allocation>>, Fault> {
        self.driver.driver_state.check(operation)?;
        if address.offset != 0 {
            return Err(not_owner(
                operation,
                "the address is not the start of an allocation",
            ));
        }
        let is_handle = address.form == AddressForm::HANDLE;
        self.pointers
            .remove(address.word, is_handle, operation, |found| {
                !found.adopted
                    && convert::kind_for(found.flavour) == kind
                    && found.handle_word().is_some() == is_handle
            })
    }

    /// Whether there is no host address that this plugin or a driver could know.
    #[inline]
    fn knows_no_address(&self) -> bool {
        let mut devices = self.driver.devices.iter();
        self.pointers.has_no_address() && devices.all(|device| device.platform.usm.is_none())
    }

    /// What is known of an address or object.
    pub(crate) fn look_up(&self, address: Address) -> PointerInfo {
        let found = match address.form {
            AddressForm::HANDLE => self
                .pointers
                .by_handle(address.word)
                .map(|found| (found, address.offset)),
            AddressForm::POINTER => address
                .as_pointer()
                .and_then(|pointer| self.pointers.by_address(pointer)),
            _ => None,
        };
        let inside = found.filter(|(found, distance)| *distance < found.size);
        let info = inside.map(|(found, distance)| self.describe_pointer(&found, distance));
        let info = info.or_else(|| self.shared_by_others(address));
        info.unwrap_or_default()
    }

    fn describe_pointer(&self, found: &Allocation, distance: u64) -> PointerInfo {
        let host = found
            .host_word()
            .map_or(0, |base| base.saturating_add(distance));
        let mut flags = PointerFlags::empty();
        for (holds, flag) in [
            (host != 0, PointerFlags::HOST_ACCESSIBLE),
            (found.flavour == Flavour::Managed, PointerFlags::MANAGED),
            (found.adopted, PointerFlags::FOREIGN),
            (found.access == Access::Read, PointerFlags::READ_ONLY),
        ] {
            if holds {
                flags = flags.with(flag);
            }
        }
        PointerInfo {
            kind: convert::kind_for(found.flavour),
            device: self.index_of(found.device.id),
            base: base_of(found),
            size: found.size,
            allocation_id: found.id,
            host_pointer: host,
            // A memory object has no address for the device that the host could name.
            device_pointer: if found.flavour == Flavour::Managed {
                host
            } else {
                0
            },
            context: found.device.context().word(),
            flags,
            reserved: 0,
        }
    }
}

impl Drop for OpenCl {
    fn drop(&mut self) {
        // Host events that nobody completes any more would hold the streams for ever.
        drop(self.events.drain());
        // Work may use memory of the host, which is freed once this returns. Failed work is over too.
        let streams = self.streams.drain();
        for stream in &streams {
            let _ended = stream.drain(None);
        }
        self.host_calls.finish();
        drop(streams);
        drop(self.deferred.take());
        // Memory that the host never freed goes while its devices still live.
        drop(self.pointers.drain());
        for device in &self.driver.devices {
            device.pool.close();
        }
        let leaked = self.driver.driver_state.leaked();
        if leaked > 0 {
            log::debug!(target: crate::handle::TARGET, "{leaked} objects were left to the system");
        }
    }
}

const fn is_memory_short(fault: &Fault) -> bool {
    matches!(fault.kind, Kind::OutOfDeviceMemory | Kind::OutOfHostMemory)
}

/// The first byte of an allocation, in the form in which the host passes it around.
pub(crate) fn base_of(allocation: &Allocation) -> Address {
    match (allocation.handle_word(), allocation.host_word()) {
        (Some(handle), _) => Address::handle(handle, 0),
        (None, host) => Address::pointer(host.unwrap_or(0)),
    }
}

/// The refusal of an address that nobody vouched for.
pub(crate) fn not_owner(operation: &'static str, why: &str) -> Fault {
    Fault::new(Kind::NotOwner, operation, why)
}

fn capabilities(device: &Device) -> Capabilities {
    let mut all = Capabilities::ASYNC_COPY
        .with(Capabilities::STRIDED_COPY)
        .with(Capabilities::FILL)
        .with(Capabilities::PINNED)
        .with(Capabilities::REGISTER)
        .with(Capabilities::ADOPT_NATIVE)
        .with(Capabilities::TIMING)
        .with(Capabilities::HOST_EVENTS)
        .with(Capabilities::POLLED_HOST_CALLS);
    if device.facts.fine_grained_svm || device.platform.usm.is_some() {
        all = all.with(Capabilities::MANAGED);
    }
    if device.aliases_host {
        all = all.with(Capabilities::ADOPT_HOST);
    }
    all
}
