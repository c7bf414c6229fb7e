//! The device's memory: what is allocated, registered and adopted, and who may touch what.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sdk::abi::{
    Address, AddressForm, AllocateArgs, Capabilities, DeviceInfo, MemoryInfo, MemoryKind,
    PointerFlags, PointerInfo, Side, Status,
};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::Error;

use crate::convert;
use crate::copy::Pool;
use crate::memory::Cache;
use crate::pages::{self, Block};
use crate::pointers::{Known, NotEntered, Origin, Pointers};

/// Memory, and the threads that copy it. Work on a stream keeps it alive.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) pool: Pool,
    cache: Cache,
    pointers: Pointers,
    blocks: Mutex<HashMap<usize, Block>>,
    adoptions: Mutex<Adoptions>,
    forked: AtomicBool,
    retired: AtomicBool,
    exiting: AtomicBool,
}

/// Adopted addresses, each with the known ranges that its adoptions lie in.
#[derive(Debug, Default)]
struct Adoptions {
    ranges: HashMap<usize, Vec<usize>>,
    /// How many adoptions lie in a range that is the memory of others.
    users: HashMap<usize, usize>,
    /// The ranges whose registration has ended: they are known only because of the adoptions in them. To
    /// enter them anew as adopted would leave a moment in which a copy does not find its memory.
    unregistered: HashSet<usize>,
}

impl Device {
    pub(crate) fn new() -> Self {
        Self {
            pool: Pool::for_machine(),
            cache: Cache::for_machine(),
            pointers: Pointers::default(),
            blocks: Mutex::default(),
            adoptions: Mutex::default(),
            forked: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            exiting: AtomicBool::new(false),
        }
    }

    /// Marks everything dead: in the child of a fork any lock may be held by a thread that is not there.
    pub(crate) fn at_fork_child(&self) {
        self.forked.store(true, Ordering::Relaxed);
    }

    /// Refuses new work from now on.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Refuses new work too, now that the process exits.
    pub(crate) fn exit(&self) {
        self.exiting.store(true, Ordering::Release);
        self.retire();
    }

    /// Whether the process exits: functions of the host do not begin any more.
    pub(crate) fn is_exiting(&self) -> bool {
        self.exiting.load(Ordering::Acquire)
    }

    /// Fails in the child of a fork.
    #[inline]
    pub(crate) fn check_process(&self, operation: &'static str) -> Result<(), Error> {
        if self.forked.load(Ordering::Relaxed) {
            return Err(forked(operation));
        }
        Ok(())
    }

    /// Fails when no new work is taken.
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<(), Error> {
        self.check_process(operation)?;
        if self.retired.load(Ordering::Relaxed) {
            return Err(Error::new(
                Status::RETIRED,
                operation,
                "the plugin was retired",
            ));
        }
        Ok(())
    }

    pub(crate) fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let operation = "allocate";
        self.check_open(operation)?;
        check_index(operation, args.device)?;
        if !matches!(
            args.kind,
            MemoryKind::DEVICE | MemoryKind::PINNED | MemoryKind::HOST
        ) {
            return Err(Error::unsupported(operation));
        }
        let alignment = size(operation, args.alignment)?;
        let size = size(operation, args.size)?;
        let block = self
            .cache
            .allocate(size, alignment)
            .map_err(|why| convert::no_memory(operation, why))?;
        let base = block.address().as_ptr().expose_provenance();
        let entered = self
            .pointers
            .enter(base, size, Origin::Allocated, args.kind.0);
        if let Err(why) = entered {
            self.cache.free(block);
            return Err(convert::not_entered(operation, why));
        }
        lock(&self.blocks).insert(base, block);
        Ok(address(base))
    }

    pub(crate) fn free(&self, address: Address, kind: Option<MemoryKind>) -> Result<(), Error> {
        let operation = "free";
        self.check_process(operation)?;
        let not_owner = || Error::new(Status::NOT_OWNER, operation, "this was not allocated here");
        let base = pointer(operation, address)?;
        let known = self.pointers.query(base).ok_or_else(not_owner)?;
        if known.base != base || kind.is_some_and(|kind| kind.0 != known.tag) {
            return Err(not_owner());
        }
        // First the answer, then the memory: no query names an address that another may have.
        self.pointers
            .forget(base, Origin::Allocated)
            .ok_or_else(not_owner)?;
        let block = lock(&self.blocks).remove(&base);
        self.cache.free(block.ok_or_else(not_owner)?);
        Ok(())
    }

    /// What is kept of freed memory.
    pub(crate) const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Answers a pointer query; inlined for the reason that [`Pointers::query`] gives.
    #[inline(always)]
    pub(crate) fn query(&self, asked: Address) -> Result<PointerInfo, Error> {
        self.check_process("pointer_query")?;
        let pointer = asked
            .as_pointer()
            .and_then(|word| usize::try_from(word).ok());
        let known = pointer.and_then(|pointer| self.pointers.query(pointer));
        let (Some(known), Some(word)) = (known, asked.as_pointer()) else {
            return Ok(PointerInfo::default());
        };
        let foreign = match known.origin {
            Origin::Allocated => PointerFlags::empty(),
            Origin::Registered | Origin::Adopted => PointerFlags::FOREIGN,
        };
        Ok(PointerInfo {
            kind: MemoryKind(known.tag),
            device: 0,
            base: address(known.base),
            size: wide(known.size),
            allocation_id: known.id,
            host_pointer: word,
            device_pointer: word,
            context: 0,
            flags: PointerFlags::HOST_ACCESSIBLE.with(foreign),
            reserved: 0,
        })
    }

    pub(crate) fn register(&self, base: usize, bytes: u64) -> Result<(), Error> {
        let operation = "register_host";
        self.check_open(operation)?;
        let size = size(operation, bytes)?;
        let tag = MemoryKind::PINNED.0;
        let entered = self.pointers.enter(base, size, Origin::Registered, tag);
        entered
            .map(|_| ())
            .map_err(|why| convert::not_entered(operation, why))
    }

    pub(crate) fn unregister(&self, base: usize) -> Result<(), Error> {
        let operation = "unregister_host";
        self.check_process(operation)?;
        let mut adoptions = lock(&self.adoptions);
        let is_registered = |known: &Known| {
            known.base == base
                && known.origin == Origin::Registered
                && !adoptions.unregistered.contains(&base)
        };
        if !self
            .pointers
            .query(base)
            .is_some_and(|known| is_registered(&known))
        {
            let why = "this was not registered";
            return Err(Error::new(Status::NOT_OWNER, operation, why));
        }
        if adoptions.users.contains_key(&base) {
            adoptions.unregistered.insert(base);
        } else {
            self.pointers.forget(base, Origin::Registered);
        }
        Ok(())
    }

    /// Adopts host memory, also memory that is known already, and gives its own address back.
    pub(crate) fn adopt(&self, foreign: Address, bytes: u64) -> Result<Address, Error> {
        let operation = "adopt";
        self.check_open(operation)?;
        let base = pointer(operation, foreign)?;
        let size = size(operation, bytes)?;
        let mut adoptions = lock(&self.adoptions);
        let entered = self
            .pointers
            .enter(base, size, Origin::Adopted, MemoryKind::DEVICE.0);
        let known = match entered {
            Ok(known) => known,
            Err(NotEntered::Overlaps(known)) if covers(&known, base, size) => known,
            Err(NotEntered::Overlaps(_)) => return Err(Error::unsupported(operation)),
            Err(why) => return Err(convert::not_entered(operation, why)),
        };
        adoptions.ranges.entry(base).or_default().push(known.base);
        if known.origin != Origin::Allocated {
            *adoptions.users.entry(known.base).or_default() += 1;
        }
        Ok(address(base))
    }

    pub(crate) fn release(&self, adopted: Address) -> Result<(), Error> {
        let operation = "release_adopted";
        self.check_process(operation)?;
        let base = pointer(operation, adopted)?;
        let mut adoptions = lock(&self.adoptions);
        let range = adoptions.ranges.get_mut(&base).and_then(Vec::pop);
        let range = range.ok_or_else(|| {
            Error::new(Status::NOT_OWNER, operation, "this address was not adopted")
        })?;
        if adoptions.ranges.get(&base).is_some_and(Vec::is_empty) {
            adoptions.ranges.remove(&base);
        }
        let last = adoptions.users.get_mut(&range).is_some_and(|users| {
            *users -= 1;
            *users == 0
        });
        if last {
            adoptions.users.remove(&range);
            let origin = if adoptions.unregistered.remove(&range) {
                Origin::Registered
            } else {
                Origin::Adopted
            };
            // What is registered still stays.
            self.pointers.forget(range, origin);
        }
        Ok(())
    }

    /// The address of one side of a copy, of which `low..high` bytes around it are touched.
    pub(crate) fn side(
        &self,
        operation: &'static str,
        side: &Side,
        (low, high): (i128, i128),
    ) -> Result<*mut u8, Error> {
        let start = pointer(operation, side.address)?;
        let place = i128::from(wide(start));
        let last = place
            .checked_add(high)
            .ok_or_else(|| too_large(operation))?;
        if place + low <= 0 || usize::try_from(last).is_err() {
            return Err(Error::new(
                Status::INVALID,
                operation,
                "a side leaves the address space",
            ));
        }
        if !matches!(side.kind, MemoryKind::HOST | MemoryKind::PINNED) {
            check_index(operation, side.device)?;
            let known = self.pointers.query(start).ok_or_else(|| {
                Error::new(
                    Status::NOT_OWNER,
                    operation,
                    "the address is not known here",
                )
            })?;
            let (base, size) = (wide(known.base), wide(known.size));
            if place + low < i128::from(base) || last > i128::from(base) + i128::from(size) {
                let why = "a side reaches past its allocation";
                return Err(Error::new(Status::INVALID, operation, why));
            }
        }
        Ok(std::ptr::with_exposed_provenance_mut(start))
    }
}

#[cold]
fn forked(operation: &'static str) -> Error {
    let why = "the process is a fork of the one that opened the plugin";
    Error::new(Status::FORKED, operation, why)
}

/// What the device is.
pub(crate) fn info() -> DeviceInfo {
    let capabilities = [
        Capabilities::HOST_ACCESSIBLE,
        Capabilities::ASYNC_COPY,
        Capabilities::STRIDED_COPY,
        Capabilities::FILL,
        Capabilities::PINNED,
        Capabilities::REGISTER,
        Capabilities::ADOPT_HOST,
        Capabilities::TIMING,
        Capabilities::HOST_EVENTS,
        Capabilities::SUB_BYTE_STRIDES,
    ];
    let mut info = DeviceInfo::new(DeviceType::CPU, 0, &name());
    info.total_memory = wide(pages::total_bytes());
    info.capabilities = capabilities.into_iter().collect();
    info
}

/// How much memory the machine has now.
pub(crate) fn memory_info() -> MemoryInfo {
    MemoryInfo {
        free: wide(pages::free_bytes()),
        total: wide(pages::total_bytes()),
    }
}

/// The processor's name, where the system says it.
fn name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

/// There is one device.
pub(crate) fn check_index(operation: &'static str, device: u32) -> Result<(), Error> {
    if device == 0 {
        return Ok(());
    }
    Err(Error::new(
        Status::INVALID,
        operation,
        format!("no device {device}: there is one"),
    ))
}

/// The pointer that an address stands for.
fn pointer(operation: &'static str, address: Address) -> Result<usize, Error> {
    if address.form != AddressForm::POINTER {
        return Err(Error::unsupported(operation));
    }
    let pointer = address
        .as_pointer()
        .and_then(|word| usize::try_from(word).ok());
    pointer
        .filter(|&pointer| pointer != 0)
        .ok_or_else(|| Error::new(Status::INVALID, operation, "no address of this process"))
}

/// A size as the machine counts.
pub(crate) fn size(operation: &'static str, bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes)
        .ok()
        .filter(|&size| size > 0)
        .ok_or_else(|| too_large(operation))
}

fn too_large(operation: &'static str) -> Error {
    Error::new(
        Status::INVALID,
        operation,
        "a size of 0, or more than the address space holds",
    )
}

fn covers(known: &Known, base: usize, size: usize) -> bool {
    base.checked_sub(known.base)
        .and_then(|inside| inside.checked_add(size))
        .is_some_and(|end| end <= known.size)
}

fn address(base: usize) -> Address {
    Address::pointer(wide(base))
}

/// No machine counts further than 64 bits.
fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// No state behind these locks can be left half changed, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
