//! Allocations: where their memory came from, and where it goes back to.
#![expect(unsafe_code, reason = "memory is freed by its address")]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::deadline::{Deadline, limit};
use crossdock_sdk::log;

use crate::TARGET;
use crate::blocks::room_for;
use crate::current::Entered;
use crate::device::{Device, Home, locked};
use crate::fault::Fault;
use crate::native::NativeEvent;
use crate::progress::{BUSY_ROUNDS, Progress, wait_until_over};
use crate::stream::Stream;
use crate::vendor::{Answer, ErrorKind, Kind, Vendor};

/// Memory that this plugin knows by itself.
#[derive(Debug)]
pub(crate) struct Allocation<V: Vendor> {
    pub(crate) device: Arc<Device<V>>,
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// A number that no other allocation of the process has.
    pub(crate) id: u64,
    pub(crate) source: Source,
    /// The point in the stream of allocations behind which other streams may use it; `None` once it was passed.
    ready: Mutex<Option<Arc<NativeEvent<V>>>>,
    /// Ends of the work that may still use registered memory.
    pub(crate) users: Mutex<Vec<Arc<NativeEvent<V>>>>,
    /// Calls that use registered memory now.
    pub(crate) calls: AtomicUsize,
    /// The devices that host memory is registered for; none once the registration has ended. Shared by a call that begins
    /// to use the memory, exclusive to the thread that ends the registration: also over the call of the driver.
    pub(crate) holders: RwLock<Vec<Arc<Device<V>>>>,
    /// Why nobody can tell whether work is over that used registered memory: its device was lost.
    pub(crate) abandoned: OnceLock<Fault>,
}

/// Where memory came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The device's pool.
    Pool,
    /// A block of so many bytes.
    Block { kind: Kind, room: u64 },
    /// The host's own memory, which is locked.
    Registered,
}

impl<V: Vendor> Allocation<V> {
    pub(crate) fn new(device: &Arc<Device<V>>, address: u64, size: u64, source: Source) -> Self {
        let holder = (source == Source::Registered).then(|| Arc::clone(device));
        let holders = holder.into_iter().collect();
        Self {
            device: Arc::clone(device),
            address,
            size,
            id: new_id(),
            source,
            ready: Mutex::default(),
            users: Mutex::default(),
            calls: AtomicUsize::new(0),
            holders: RwLock::new(holders),
            abandoned: OnceLock::new(),
        }
    }

    /// The device whose memory it is. What several have registered is that of one which is not lost.
    pub(crate) fn working_device(&self) -> Arc<Device<V>> {
        let working = self.device.is_lost().then(|| {
            let holders = self.holders();
            holders.iter().find(|device| !device.is_lost()).cloned()
        });
        let working = working.flatten();
        working.unwrap_or_else(|| Arc::clone(&self.device))
    }

    /// What memory it is.
    pub(crate) const fn kind(&self) -> Kind {
        match self.source {
            Source::Pool => Kind::Device,
            Source::Block { kind, .. } => kind,
            Source::Registered => Kind::Pinned,
        }
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.source == Source::Registered
    }

    /// Allocates without a stream.
    pub(crate) fn make(
        device: &Arc<Device<V>>,
        kind: MemoryKind,
        size: u64,
        alignment: u64,
    ) -> Result<Self, Fault> {
        let operation = "allocate";
        let kind = match kind {
            MemoryKind::DEVICE => Kind::Device,
            MemoryKind::PINNED => Kind::Pinned,
            MemoryKind::MANAGED if device.facts.has_managed => Kind::Managed,
            _ => return Err(Fault::unsupported(operation, "no such kind of memory")),
        };
        let home = device.home(operation)?;
        let inside = Entered::new(device, home.context)?;
        let made = match home.pool.filter(|_| kind == Kind::Device) {
            Some(pool) => Self::of_pool(device, &inside, home, pool, size)?,
            None => Self::of_blocks(device, &inside, kind, size)?,
        };
        device.counts.add(made.counted());
        if made.address.is_multiple_of(alignment.max(LEAST_ALIGNMENT)) {
            return Ok(made);
        }
        made.free()?;
        let why = format!("the driver's memory does not begin on {alignment} bytes");
        Err(Fault::unsupported(operation, why))
    }

    fn of_pool(
        device: &Arc<Device<V>>,
        inside: &Entered<'_, V>,
        home: Home,
        pool: u64,
        size: u64,
    ) -> Result<Self, Fault> {
        let once = || loop {
            if let Some(made) = Self::try_pool(device, inside, home, pool, size)? {
                break Ok::<_, Fault>(made);
            }
        };
        match once()? {
            Err(_failed) => once()?,
            made => made,
        }
    }

    /// Allocates once. Returns the failure of an allocation that failed as it ran, and `None` if another thread cleared a
    /// failure meanwhile, which may have been this one's.
    fn try_pool(
        device: &Arc<Device<V>>,
        inside: &Entered<'_, V>,
        home: Home,
        pool: u64,
        size: u64,
    ) -> Result<Option<Result<Self, Fault>>, Fault> {
        let cleared = device.cleared_failures.count();
        let address = take(inside, home, pool, (size, home.stream))?;
        let give_back = || {
            // SAFETY: nobody was given the memory.
            device.report(unsafe { inside.vendor().free_on(address, home.stream) });
        };
        let made = Self::new(device, address, size, Source::Pool);
        match settle(inside, home, READY_WAIT_NS) {
            Progress::Done => {}
            Progress::Failed(fault) => {
                // This allocation, or what was put there before it, failed as it ran. All of it is over, so this does not
                // wait: the stream forgets the failure, which would be that of every later allocation.
                device.cleared_failures.clear(|| {
                    let _told = inside.vendor().synchronize_stream(home.stream);
                });
                give_back();
                return Ok(Some(Err(fault)));
            }
            Progress::Running => {
                // The device did not get there in time, so every use waits for this point instead.
                let ready = NativeEvent::record(device, inside, home.context, home.stream);
                let ready = ready.inspect_err(|_| give_back())?;
                *locked(&made.ready) = Some(ready);
            }
        }
        if cleared.is_none() || cleared != device.cleared_failures.count() {
            give_back();
            return Ok(None);
        }
        Ok(Some(Ok(made)))
    }

    fn of_blocks(
        device: &Arc<Device<V>>,
        inside: &Entered<'_, V>,
        kind: Kind,
        size: u64,
    ) -> Result<Self, Fault> {
        let memory = if kind == Kind::Device {
            Status::OOM_DEVICE
        } else {
            Status::OOM_HOST
        };
        let room = room_for(size).ok_or_else(|| {
            let why = format!("there are not {size} bytes of memory");
            Fault::new(memory, "allocate", why)
        })?;
        let address = match device.blocks.take(kind, room) {
            Some(address) => address,
            None => block(inside, kind, room).map_err(|fault| match fault.status {
                Status::OOM_DEVICE => fault.with_status(memory),
                _ => fault,
            })?,
        };
        let source = Source::Block { kind, room };
        Ok(Self::new(device, address, size, source))
    }

    /// Allocates in the order of a stream.
    pub(crate) fn make_on(stream: &Stream<V>, size: u64) -> Result<Self, Fault> {
        let operation = "allocate_async";
        let home = stream.device.home(operation)?;
        let Some(pool) = home.pool else {
            // Blocks are used by nobody, so there is nothing to wait for.
            return Self::make(&stream.device, MemoryKind::DEVICE, size, 1);
        };
        let inside = stream.submit(operation)?;
        let address = take(&inside, home, pool, (size, stream.raw))?;
        let made = Self::new(&stream.device, address, size, Source::Pool);
        stream.device.counts.add(made.counted());
        Ok(made)
    }

    /// Gives back memory that no work uses.
    pub(crate) fn free(&self) -> Result<(), Fault> {
        let operation = "free";
        self.device.counts.remove(self.counted());
        match self.source {
            Source::Pool => {
                let Some(home) = self.device.known_home() else {
                    return Ok(());
                };
                if self.device.is_lost() {
                    // It is gone with its device.
                    return Ok(());
                }
                let inside = self.device.enter_in(home.context, operation);
                let freed = inside.and_then(|inside| {
                    // SAFETY: no work uses the memory, and nobody knows it any more.
                    inside.ask(|vendor| unsafe { vendor.free_on(self.address, home.stream) })
                });
                gone_with_its_device(freed.inspect_err(|_| self.free_at_close()))
            }
            Source::Block { kind, room } => {
                self.device.blocks.give(kind, room, self.address);
                Ok(())
            }
            Source::Registered => Ok(()),
        }
    }

    /// Gives the memory back when the stream gets here. Returns the point from which on it counts as freed; `None` where
    /// nothing is left to count: a host function does it, or no point could be recorded and it counts as freed already.
    pub(crate) fn free_on(&self, stream: &Stream<V>) -> Result<Option<Arc<NativeEvent<V>>>, Fault> {
        let submit = || stream.submit("free_async");
        let inside = submit().or_else(|_| submit());
        let inside = inside.inspect_err(|fault| self.never_freed(fault))?;
        let freed = self.free_after_work(stream, &inside);
        freed.inspect_err(|_| self.free_at_close_after(stream, &inside))
    }

    fn free_after_work(
        &self,
        stream: &Stream<V>,
        inside: &Entered<'_, V>,
    ) -> Result<Option<Arc<NativeEvent<V>>>, Fault> {
        self.get_ready(inside, stream.raw)?;
        let Source::Block { kind, room } = self.source else {
            // SAFETY: by the caller's promise nobody uses the memory behind this point of the stream.
            inside.ask(|vendor| unsafe { vendor.free_on(self.address, stream.raw) })?;
            let point = NativeEvent::record_for_good(stream, inside);
            if let Ok(point) = &point {
                stream.remember_marker(point);
            }
            // Without a point it counts as freed now.
            return Ok(point
                .inspect_err(|_| self.device.counts.remove(self.counted()))
                .ok());
        };
        let (blocks, counts) = (
            Arc::clone(&self.device.blocks),
            Arc::clone(&self.device.counts),
        );
        let (address, counted) = (self.address, self.counted());
        let give_back = Box::new(move || {
            blocks.give(kind, room, address);
            counts.remove(counted);
        });
        let calls = &stream.device.calls;
        calls.put(inside, stream.raw, give_back).map(|()| None)
    }

    /// Remembers memory that the driver did not take back, and that work on the stream may use: the stream may be gone
    /// when it is freed. Where nobody can say until when that is, it is never freed.
    fn free_at_close_after(&self, stream: &Stream<V>, inside: &Entered<'_, V>) {
        if !matches!(self.source, Source::Pool) {
            return self.free_at_close();
        }
        match stream.remember_end(inside) {
            Ok(()) => stream.device.free_at_close(self.address),
            Err(fault) => self.never_freed(&fault),
        }
    }

    /// Says that memory is leaked. That of a lost device is gone with it.
    fn never_freed(&self, fault: &Fault) {
        if fault.status != Status::DEVICE_LOST {
            log::warn!(target: TARGET, "{} bytes are never freed: {fault}", self.size);
        }
    }

    /// Remembers memory that the driver did not take back.
    fn free_at_close(&self) {
        match self.source {
            Source::Pool => self.device.free_at_close(self.address),
            // It is one of the blocks that are freed when the device is closed.
            Source::Block { .. } | Source::Registered => {}
        }
    }

    /// The bytes that it counts for: only device memory counts.
    pub(crate) const fn counted(&self) -> u64 {
        match self.source {
            Source::Pool => self.size,
            Source::Block {
                kind: Kind::Device,
                room,
            } => room,
            Source::Block { .. } | Source::Registered => 0,
        }
    }

    /// Lets a stream wait until it may use the memory.
    pub(crate) fn get_ready(&self, inside: &Entered<'_, V>, stream: u64) -> Result<(), Fault> {
        let ready = locked(&self.ready).clone();
        let Some(ready) = ready else { return Ok(()) };
        if ready.progress()? == Progress::Done {
            let passed = locked(&self.ready).take();
            drop(passed);
            return Ok(());
        }
        // One that failed too: whoever uses the memory inherits that.
        ready.hold(inside, stream)
    }
}

/// Memory of a pool, in the order of a stream. Where the pool is full, memory that was freed is waited for, and what the
/// pool keeps goes back to the driver: a caller that was told to free memory and to try again has no other way to it.
fn take<V: Vendor>(
    inside: &Entered<'_, V>,
    home: Home,
    pool: u64,
    (size, stream): (u64, u64),
) -> Result<u64, Fault> {
    let allocate = |vendor: &V| vendor.allocate_on(pool, size, stream);
    match allocate(inside.vendor()) {
        Ok(address) => Ok(address),
        Err(code) if V::error_kind(code) == ErrorKind::OutOfMemory => {
            settle(inside, home, FULL_WAIT_NS);
            inside.device.report(inside.vendor().trim_pool(pool, 0));
            inside.ask(allocate)
        }
        Err(code) => Err(inside.fault(code)),
    }
}

/// How far the device is with all allocations and frees so far; where the driver cannot be asked it may be running them.
/// Waits for a short time only: work that the host holds up may share a hardware queue, and keep the device from getting
/// there. On a busy machine the time may pass while this thread does not run, so it asks a number of times first.
pub(crate) fn settle<V: Vendor>(inside: &Entered<'_, V>, home: Home, wait_ns: u64) -> Progress {
    let ask = || Progress::ask(inside, |vendor| vendor.query_stream(home.stream));
    let mut answer = ask();
    for _ in 0..BUSY_ROUNDS {
        if answer.as_ref().map_or(true, Progress::is_over) {
            break;
        }
        std::thread::yield_now();
        answer = ask();
    }
    if answer == Ok(Progress::Running) {
        let moment = Deadline::after(limit(wait_ns));
        answer = wait_until_over(moment, ask);
    }
    answer.unwrap_or(Progress::Running)
}

/// A block of pinned memory, idle or new. It belongs to the device's own context, whichever is current: a context of
/// others would free it when it is destroyed.
pub(crate) fn pinned<V: Vendor>(device: &Device<V>, room: u64) -> Result<u64, Fault> {
    match device.blocks.take(Kind::Pinned, room) {
        Some(idle) => Ok(idle),
        None => block(&device.enter("allocate")?, Kind::Pinned, room),
    }
}

/// A new block. Where memory is full, idle blocks of the same kind are freed for it, the largest first.
fn block<V: Vendor>(inside: &Entered<'_, V>, kind: Kind, room: u64) -> Result<u64, Fault> {
    let fresh = |vendor: &V| match kind {
        Kind::Device => vendor.allocate(room),
        Kind::Pinned => vendor.allocate_pinned(room),
        Kind::Managed => vendor.allocate_managed(room),
    };
    loop {
        let code = match fresh(inside.vendor()) {
            Ok(address) => {
                inside.device.blocks.add(kind, room, address);
                return Ok(address);
            }
            Err(code) => code,
        };
        let is_full = V::error_kind(code) == ErrorKind::OutOfMemory;
        let Some((idle, _)) = inside.device.blocks.largest(kind).filter(|_| is_full) else {
            return Err(inside.fault(code));
        };
        inside.device.report(free_block(inside, idle, kind));
    }
}

/// Frees a block for good, which waits for the device.
pub(crate) fn free_block<V: Vendor>(inside: &Entered<'_, V>, address: u64, kind: Kind) -> Answer {
    inside.device.blocks.remove(address);
    // SAFETY: the block is idle, or the device is closed and the driver's free waits for the work that has it
    // (`docs/gpu.md`).
    unsafe { inside.vendor().free(address, kind) }
}

/// Frees memory of a pool when nothing runs any more.
pub(crate) fn free_at_last<V: Vendor>(
    inside: &Entered<'_, V>,
    address: u64,
    stream: u64,
) -> Answer {
    // SAFETY: the host gave it back, and all streams are over.
    unsafe { inside.vendor().free_on(address, stream) }
}

/// Memory of a lost device is gone with it.
pub(crate) fn gone_with_its_device(freed: Result<(), Fault>) -> Result<(), Fault> {
    match freed {
        Err(fault) if fault.status == Status::DEVICE_LOST => Ok(()),
        freed => freed,
    }
}

/// Our ids have the highest bit, which the driver's ids never have.
fn new_id() -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(1);
    1 << 63 | MADE.fetch_add(1, Ordering::Relaxed)
}

const LEAST_ALIGNMENT: u64 = 256;
/// The longest that an allocation waits to be ready.
const READY_WAIT_NS: u64 = 2_000_000;
/// The longest that one waits for frees where memory is full.
const FULL_WAIT_NS: u64 = 50_000_000;
