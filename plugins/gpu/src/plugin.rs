//! The plugin as the contract sees it: its devices and its memory.
#![expect(
    unsafe_code,
    reason = "freeing and copying are unsafe to call in the contract"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crossdock_sdk::abi::{
    Address, AddressForm, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, EventHandle,
    MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, ProbeInfo, QueryCost, Status, StreamHandle,
};
use crossdock_sdk::deadline::{Deadline, limit};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::handles::Handles;
use crossdock_sdk::log;
use crossdock_sdk::plugin::{Attributes, Error, Groups, Host, Plugin, Pool, fixed_text};

use crate::TARGET;
use crate::copy;
use crate::device::{Device, locked};
use crate::driver::{Driver, Presence};
use crate::event::Event;
use crate::fault::Fault;
use crate::memory::{Allocation, settle};
use crate::native::NativeEvent;
use crate::place::Reach;
use crate::pointers::{Pointers, describe, describe_foreign, memory_kind, word_of};
use crate::stream::Stream;
use crate::transfer::unlock;
use crate::vendor::{Kind, Sort, Vendor};

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

/// Memory that a stream frees when it gets there.
#[derive(Debug)]
pub(crate) struct Freeing<V: Vendor> {
    pub(crate) point: Arc<NativeEvent<V>>,
    pub(crate) device: Arc<Device<V>>,
    pub(crate) bytes: u64,
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
        Ok(self.enter_memory(operation, made)?)
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
            behind: args.bytes,
        };
        let dst = self.place(&args.dst, reach, operation)?;
        let src = self.place(&args.src, reach, operation)?;
        // SAFETY: `contiguous` needs what `copy` needs: the caller promises it.
        Ok(unsafe { copy::contiguous(stream.as_deref(), &dst, &src, args.bytes) }?)
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        let Some(word) = word_of(address) else {
            return Ok(PointerInfo::default());
        };
        if let Some(found) = self.pointers.find(word) {
            return Ok(describe(&found, word));
        }
        if self.driver.process.check("pointer_query").is_err() {
            return Ok(PointerInfo::default());
        }
        let known = match self.known_of_others(word) {
            Ok(known) => known,
            // Without a context the driver knows no memory, and with a lost device it may say nothing of any.
            Err(fault) if fault.status == Status::STALE || self.is_any_lost() => None,
            Err(fault) => return Err(fault.into()),
        };
        let known = known.and_then(|known| {
            let device = self.of_ordinal(known.ordinal, "pointer_query").ok()?;
            Some(describe_foreign(&known, word, device.index))
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
        let told = told.map_err(|code| match V::sort_of(code) {
            // A driver that is older than an attribute refuses its number.
            Sort::Invalid => self.driver.fault(code).with_status(Status::UNSUPPORTED),
            _ => self.driver.fault(code),
        })?;
        let told = u64::try_from(told).map_err(|_negative| unknown())?;
        Ok(told)
    }
}

impl<V: Vendor> Pool for Gpu<V> {
    fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error> {
        let operation = "memory_trim";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        let Some(home) = found.known_home() else {
            return Ok(());
        };
        self.count_freed();
        let inside = found.enter_in(home.context, operation)?;
        if let Some(pool) = home.pool {
            settle(&inside, home, MOMENT_NS);
            let used = found.counts.look(0).used;
            let most = used.saturating_add(keep_bytes);
            return Ok(inside.ask(|vendor| vendor.trim_pool(pool, most))?);
        }
        // Freeing a block waits for the whole device, so nothing is freed while one of the streams that Crossdock knows
        // has work.
        if self.has_work(found) {
            return Ok(());
        }
        while found.blocks.bytes(Kind::Device) > keep_bytes
            && let Some((address, _)) = found.blocks.largest(Kind::Device)
        {
            found.report(crate::memory::give_back(&inside, address, Kind::Device));
        }
        Ok(())
    }

    fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error> {
        let operation = "memory_usage";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        self.count_freed();
        let (reserved, peak) = self.reserved(found, operation)?;
        let bytes = found.counts.look(reserved);
        let reserved = reserved.max(bytes.used);
        Ok(MemoryUsage {
            reserved,
            used: bytes.used,
            peak_reserved: peak.max(bytes.peak_reserved).max(reserved),
            peak_used: bytes.peak_used,
        })
    }

    fn memory_reset_peaks(&self, device: u32) -> Result<(), Error> {
        let operation = "memory_reset_peaks";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        if let Some(home) = found.known_home()
            && let Some(pool) = home.pool
        {
            let inside = found.enter_in(home.context, operation)?;
            inside.ask(|vendor| vendor.reset_pool_peak(pool))?;
        }
        let (reserved, _) = self.reserved(found, operation)?;
        found.counts.reset(reserved);
        Ok(())
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
    pub(crate) fn enter_memory(
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
        let word = word_of(address).filter(|word| *word != 0);
        let word = word.ok_or_else(|| Fault::not_owner(operation, "it is no address"))?;
        self.pointers.remove(word, operation, |found| {
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

    /// Whether a stream of the device may have work.
    fn has_work(&self, device: &Device<V>) -> bool {
        let _asking = locked(&self.asking);
        let streams = self.streams.all();
        let is_of = |stream: &&Arc<Stream<V>>| stream.device.index == device.index;
        let mut of_device = streams.iter().filter(is_of);
        let is_over = |stream: &Arc<Stream<V>>| stream.query().is_ok_and(|now| now.is_over());
        !of_device.all(is_over)
    }

    /// Takes memory that streams have freed by now out of the counts.
    pub(crate) fn count_freed(&self) {
        let all = std::mem::take(&mut *locked(&self.freeing));
        let is_over = |freeing: &Freeing<V>| {
            let now = freeing.point.progress();
            freeing.device.is_lost() || now.is_ok_and(|now| now.is_over())
        };
        let (over, mut left): (Vec<_>, Vec<_>) = all.into_iter().partition(is_over);
        for freed in over {
            freed.device.counts.remove(freed.bytes);
        }
        locked(&self.freeing).append(&mut left);
    }

    /// What is reserved of a device's memory, and the most that the driver knows of.
    fn reserved(&self, device: &Device<V>, operation: &'static str) -> Result<(u64, u64), Fault> {
        let Some(home) = device.known_home() else {
            return Ok((0, 0));
        };
        let Some(pool) = home.pool else {
            let cached = device.blocks.bytes(Kind::Device);
            return Ok((device.counts.look(0).used.saturating_add(cached), 0));
        };
        let inside = device.enter_in(home.context, operation)?;
        let bytes = inside.ask(|vendor| vendor.pool_bytes(pool))?;
        Ok((bytes.reserved, bytes.peak_reserved))
    }
}

impl<V: Vendor> Drop for Gpu<V> {
    fn drop(&mut self) {
        if self.driver.process.check("close").is_err() {
            return;
        }
        // Nobody can complete these host events any more: dropping them fails their waiters, so that streams drain.
        drop(self.events.drain());
        for stream in self.streams.drain() {
            if let Err(fault) = stream.drain(None) {
                log::warn!(target: TARGET, "{fault}");
            }
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
                unlock(&left)
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

/// The longest that a trim waits for frees that streams have not carried out.
const MOMENT_NS: u64 = 50_000_000;

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
    let words = device.facts.waits_for_words;
    let host_events = words.then_some(Capabilities::HOST_EVENTS);
    let sometimes = managed.into_iter().chain(host_events);
    always.into_iter().chain(sometimes).collect()
}
