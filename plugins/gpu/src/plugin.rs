//! The plugin as the contract sees it: its devices and its memory.
#![expect(
    unsafe_code,
    reason = "freeing and copying are unsafe to call in the contract"
)]

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crossdock_sdk::abi::{
    Address, AddressForm, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, EventHandle,
    MemoryInfo, MemoryKind, PointerInfo, ProbeInfo, QueryCost, Status, StreamHandle,
};
use crossdock_sdk::deadline::{Deadline, limit};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::handles::Handles;
use crossdock_sdk::log;
use crossdock_sdk::plugin::{Attributes, Error, Groups, Host, Plugin, fixed_text};

use crate::TARGET;
use crate::copy;
use crate::device::{Device, locked};
use crate::driver::{Driver, Presence};
use crate::event::Event;
use crate::fault::Fault;
use crate::memory::Allocation;
use crate::native::NativeEvent;
use crate::place::Reach;
use crate::pointers::{Pointers, describe, describe_foreign, memory_kind, plain_address};
use crate::pool::Freeing;
use crate::register::unregister_after_work;
use crate::stream::Stream;
use crate::vendor::{ErrorKind, Vendor};

/// A vendor's devices, opened.
#[derive(Debug)]
pub struct Gpu<V: Vendor> {
    pub(crate) driver: Arc<Driver<V>>,
    pub(crate) devices: Vec<Arc<Device<V>>>,
    pub(crate) pointers: Pointers<V>,
    pub(crate) streams: Handles<StreamHandle, Stream<V>>,
    pub(crate) events: Handles<EventHandle, Event<V>>,
    /// Each device's default stream, once somebody asked.
    pub(crate) defaults: Mutex<Vec<Option<StreamHandle>>>,
    /// Memory whose free is on a stream that has not got there: it still counts as used.
    pub(crate) freeing: Mutex<Vec<Freeing<V>>>,
    /// The links that were enabled here: a device and its peer.
    pub(crate) links: Mutex<BTreeSet<(u32, u32)>>,
    /// Held over calls of the driver: while streams are asked that the caller did not name, and while one is destroyed.
    /// Afterwards the owner of a stream of others may end it, and its context. Nothing under it waits for work.
    pub(crate) asking: Mutex<()>,
    retired: AtomicBool,
}

/// A stream that a retire waits for.
enum Drained<V: Vendor> {
    Own(Arc<Stream<V>>),
    /// The end of one that its owner may end meanwhile.
    OfOthers(Arc<NativeEvent<V>>),
}

impl<V: Vendor> Plugin for Gpu<V> {
    const DESCRIPTION: &'static str = V::DESCRIPTION;
    const GROUPS: Groups<Self> = Groups::new()
        .streams()
        .wrap()
        .host_events()
        .host_calls()
        .timing()
        .strided()
        .fill()
        .register()
        .async_memory()
        .attributes()
        .pool()
        .peer();
    const QUERY_COST: QueryCost = QueryCost::DRIVER;

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(match Driver::<V>::look() {
            Presence::Ready { devices, version } => ProbeInfo::ready(devices, &version),
            Presence::Absent(what) => ProbeInfo::absent(&what),
            Presence::Broken(fault) => ProbeInfo::broken(&fault.message),
        })
    }

    fn open(_: Host) -> Result<Self, Error> {
        let (driver, devices) = Driver::open()?;
        Ok(Self {
            defaults: Mutex::new(vec![None; devices.len()]),
            driver,
            devices,
            pointers: Pointers::new(),
            streams: Handles::new(),
            events: Handles::new(),
            freeing: Mutex::default(),
            links: Mutex::default(),
            asking: Mutex::default(),
            retired: AtomicBool::new(false),
        })
    }

    fn device_count(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        let found = self.device(device, "device_info")?;
        let facts = &found.facts;
        let mut info = DeviceInfo::new(V::DEVICE_TYPE, device, &facts.name);
        info.uuid = facts.uuid;
        info.pci_bus_id = fixed_text(&facts.pci_bus_id);
        info.driver_version = fixed_text(&self.driver.version);
        info.total_memory = facts.total_memory;
        info.capabilities = capabilities(found);
        info.address_form = AddressForm::POINTER;
        info.pinned_dl_type = V::PINNED_TYPE.raw();
        info.managed_dl_type = V::MANAGED_TYPE.map_or(0, DeviceType::raw);
        Ok(info)
    }

    fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error> {
        let operation = "memory_info";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        // The driver answers only inside of a context, and listing devices must not make one.
        let Some(home) = found.known_home() else {
            return Ok(MemoryInfo {
                free: u64::MAX,
                total: found.facts.total_memory,
            });
        };
        let inside = found.enter_in(home.context, operation)?;
        let (free, total) = inside.ask(Vendor::memory_info)?;
        Ok(MemoryInfo { free, total })
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let operation = "allocate";
        self.check(operation)?;
        let device = self.device(args.device, operation)?;
        let made = Allocation::make(device, args.kind, args.size, args.alignment)?;
        Ok(self.add_allocation(operation, made)?)
    }

    unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        let gone = self.forget(address, kind, "free")?;
        Ok(gone.free()?)
    }

    unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "copy";
        self.check(operation)?;
        let stream = self.stream_for(stream, operation)?;
        let reach = Reach {
            before: 0,
            after: args.bytes,
        };
        let dst = self.place(&args.dst, reach, operation)?;
        let src = self.place(&args.src, reach, operation)?;
        // SAFETY: `contiguous` needs what `copy` needs: the caller promises it.
        Ok(unsafe { copy::contiguous(stream.as_deref(), &dst, &src, args.bytes) }?)
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        let Some(plain) = plain_address(address) else {
            return Ok(PointerInfo::default());
        };
        if let Some(found) = self.pointers.find(plain) {
            return Ok(describe(&found, plain));
        }
        if self.driver.process.check("pointer_query").is_err() {
            return Ok(PointerInfo::default());
        }
        let known = match self.known_of_others(plain) {
            Ok(known) => known,
            // Without a context the driver knows no memory, and with a lost device it may say nothing of any.
            Err(fault) if fault.status == Status::STALE || self.is_any_lost() => None,
            Err(fault) => return Err(fault.into()),
        };
        let known = known.and_then(|known| {
            let device = self.of_ordinal(known.ordinal, "pointer_query").ok()?;
            Some(describe_foreign(&known, plain, device.index))
        });
        Ok(known.unwrap_or_default())
    }

    fn retire(&self, deadline_ns: u64) -> Result<(), Error> {
        self.retired.store(true, Ordering::Release);
        self.driver.process.check("retire")?;
        let deadline = Deadline::after(limit(deadline_ns));
        // A stream whose work failed is as drained as one whose work succeeded.
        let is_drained = |stream: &Drained<V>| match stream {
            Drained::Own(stream) => stream.drain(deadline.left()),
            Drained::OfOthers(end) => end.wait(deadline).map(|now| now.is_over()),
        };
        for stream in self.to_drain()? {
            if !is_drained(&stream)? {
                let why = "a stream still has work";
                return Err(Fault::new(Status::TIMEOUT, "retire", why).into());
            }
        }
        for device in &self.devices {
            if !device.drain_ended(deadline)? {
                let why = "a stream that was destroyed still has work";
                return Err(Fault::new(Status::TIMEOUT, "retire", why).into());
            }
        }
        Ok(())
    }

    fn at_fork_child(&self) {
        self.driver.process.fork();
    }

    fn at_exit(&self) {
        self.driver.process.exit();
    }
}

impl<V: Vendor> Attributes for Gpu<V> {
    fn device_attribute(&self, device: u32, key: u32) -> Result<u64, Error> {
        let operation = "device_attribute";
        self.driver.process.check(operation)?;
        let found = self.device(device, operation)?;
        let unknown = || Fault::unsupported(operation, format!("there is no attribute {key}"));
        let number = i32::try_from(key).map_err(|_large| unknown())?;
        let told = self.driver.vendor().attribute(found.ordinal, number);
        let told = told.map_err(|code| match V::error_kind(code) {
            // A driver that is older than an attribute refuses its number.
            ErrorKind::Invalid => self.driver.fault(code).with_status(Status::UNSUPPORTED),
            _ => self.driver.fault(code),
        })?;
        let told = u64::try_from(told).map_err(|_negative| unknown())?;
        Ok(told)
    }
}

impl<V: Vendor> Gpu<V> {
    /// The device with this index.
    pub(crate) fn device(
        &self,
        index: u32,
        operation: &'static str,
    ) -> Result<&Arc<Device<V>>, Fault> {
        let found = usize::try_from(index)
            .ok()
            .and_then(|index| self.devices.get(index));
        found.ok_or_else(|| Fault::invalid(operation, format!("there is no device {index}")))
    }

    /// Refuses new work after a fork, an exit or `retire`.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), Fault> {
        self.driver.process.check(operation)?;
        if self.retired.load(Ordering::Acquire) {
            let why = "the plugin was retired";
            return Err(Fault::new(Status::RETIRED, operation, why));
        }
        Ok(())
    }

    fn is_any_lost(&self) -> bool {
        self.devices.iter().any(|device| device.is_lost())
    }

    /// Enters memory into the table of pointers.
    pub(crate) fn add_allocation(
        &self,
        operation: &'static str,
        made: Allocation<V>,
    ) -> Result<Address, Fault> {
        let entered = self.pointers.insert(operation, Arc::new(made))?;
        Ok(Address::pointer(entered.address))
    }

    /// Takes memory out of the table of pointers, and does not free it.
    pub(crate) fn forget(
        &self,
        address: Address,
        kind: MemoryKind,
        operation: &'static str,
    ) -> Result<Arc<Allocation<V>>, Fault> {
        self.driver.process.check(operation)?;
        let plain = plain_address(address).filter(|plain| *plain != 0);
        let plain = plain.ok_or_else(|| Fault::not_owner(operation, "it is no address"))?;
        self.pointers.remove(plain, operation, |found| {
            !found.is_registered() && memory_kind(found.kind()) == kind
        })
    }

    /// What a retire waits for.
    fn to_drain(&self) -> Result<Vec<Drained<V>>, Fault> {
        let _asking = locked(&self.asking);
        let mut found = Vec::new();
        for stream in self.streams.all() {
            if stream.device.is_lost() {
                continue;
            }
            if stream.is_own() {
                found.push(Drained::Own(stream));
            } else {
                found.extend(stream.end_for_good("retire")?.map(Drained::OfOthers));
            }
        }
        Ok(found)
    }
}

impl<V: Vendor> Drop for Gpu<V> {
    fn drop(&mut self) {
        if self.driver.process.check("close").is_err() {
            return;
        }
        // Nobody can complete these host events any more: dropping them fails their waiters, so that streams drain.
        drop(self.events.drain());
        let mut may_run = false;
        for stream in self.streams.drain() {
            if let Err(fault) = stream.drain_at_close() {
                let what = "work may still run, so no memory is freed";
                log::warn!(target: TARGET, "{what}: {fault}");
                may_run = true;
            }
        }
        if may_run {
            for device in &self.devices {
                let _kept = ManuallyDrop::new(Arc::clone(device));
            }
            return;
        }
        // A stream may use memory of another device, so the ends of all come before anything is freed.
        for device in &self.devices {
            let home = device.known_home();
            if let Some(Ok(inside)) = home.map(|home| device.enter_to_end(home.context)) {
                device.wait_for_ends(&inside);
            }
        }
        drop(std::mem::take(&mut *locked(&self.freeing)));
        self.end_links();
        for left in self.pointers.drain() {
            let ended = if left.is_registered() {
                unregister_after_work(&left, Deadline::after(None))
            } else {
                left.free()
            };
            // What is registered for a lost device stays so.
            if let Err(fault) = ended
                && fault.status != Status::DEVICE_LOST
            {
                log::warn!(target: TARGET, "{fault}");
            }
        }
    }
}

fn capabilities<V: Vendor>(device: &Device<V>) -> Capabilities {
    let always = [
        Capabilities::ASYNC_COPY,
        Capabilities::STRIDED_COPY,
        Capabilities::FILL,
        Capabilities::PINNED,
        Capabilities::REGISTER,
        Capabilities::TIMING,
        Capabilities::POLLED_HOST_CALLS,
    ];
    let managed = device.facts.has_managed.then_some(Capabilities::MANAGED);
    let words = device.facts.has_wait_value32;
    let host_events = words.then_some(Capabilities::HOST_EVENTS);
    let sometimes = managed.into_iter().chain(host_events);
    always.into_iter().chain(sometimes).collect()
}
