//! Memory of a device: made here, adopted from others, and given back.
#![expect(
    unsafe_code,
    reason = "memory objects are made over raw host memory and released through raw handles"
)]

use std::{
    ffi::c_void,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crossdock_sdk::log;
use opencl3::memory as cl;

use crate::{
    backing,
    device::Device,
    facts::{Beneath, Part, fact},
    fault::{Fault, Kind},
    handle::{CommandEvent, Memory, TARGET, word_of},
    pool::Counted,
    progress::{self, Progress},
    rect::Reach,
    users::Users,
    view::{Access, Range, Views, map, unmap},
};

/// What an allocation is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// A memory object; the host reaches it by `host` only where the device shares host memory.
    Device,
    /// The host's bytes, which the device copies: Intel's, or an object that stays mapped.
    Pinned,
    /// One address for both, no memory object.
    Managed,
}

/// One allocation, given back when its last user is gone.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Never reused in the process. An object and its parts have one.
    pub(crate) id: u64,
    pub(crate) device: Arc<Device>,
    pub(crate) flavour: Flavour,
    pub(crate) size: u64,
    /// Whether the bytes or the object are somebody else's.
    pub(crate) adopted: bool,
    /// What the host may do with an object: it refuses to be mapped for more.
    pub(crate) access: Access,
    /// Before the object, which leaves its memory to the pool.
    counted: Option<Counted>,
    pub(crate) memory: Option<Memory>,
    /// Where the object lies in another one, which it keeps alive.
    part: Option<Part>,
    /// The host memory that the object was made over, or the one that it is a part of.
    beneath: Option<Beneath>,
    pub(crate) host: Option<HostAddress>,
    /// What the driver gave, where `host` is an aligned place inside it.
    whole: Option<HostAddress>,
    /// Commands of ours that may still use it.
    users: Users,
    /// What the host sees of it.
    pub(crate) views: Views,
}

impl Allocation {
    /// Allocates `size` bytes of the device's own memory.
    ///
    /// Where buffers over host memory are proved to be that memory, it is made that way, so that
    /// the host reaches it without a copy.
    pub(crate) fn device(device: &Arc<Device>, size: u64, alignment: u64) -> Result<Self, Fault> {
        let bytes = checked_size(device, size)?;
        let (memory, host) = if device.aliases_host {
            let (memory, host) = backing::over_own_memory(device, bytes, alignment)?;
            (memory, Some(HostAddress(host)))
        } else if alignment > device.facts.alignment_bytes.max(256) {
            let why = format!("alignment {alignment} is beyond the driver's");
            return Err(Fault::unsupported("allocate", why));
        } else {
            let flags = cl::CL_MEM_READ_WRITE;
            (create(device, flags, bytes, std::ptr::null_mut())?, None)
        };
        let mut made = Self::new(device, Flavour::Device, size, Some(memory), host);
        made.counted = Some(Counted::new(&device.pool, size));
        Ok(made)
    }

    /// Allocates host memory that the driver copies from and to directly; mapped for life.
    pub(crate) fn pinned(device: &Arc<Device>, size: u64, alignment: u64) -> Result<Self, Fault> {
        let (bytes, alignment) = with_room(device, size, alignment)?;
        if let Some(usm) = &device.platform.usm {
            let whole = HostAddress(usm.allocate_host(device, bytes)?);
            return Ok(Self::addressed(
                device,
                Flavour::Pinned,
                size,
                whole,
                alignment,
            ));
        }
        let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_ALLOC_HOST_PTR;
        let memory = create(device, flags, bytes, std::ptr::null_mut())?;
        let whole = HostAddress(map(&device.queue, &memory, all_of(bytes))?);
        let host = whole.aligned(alignment);
        let mut made = Self::new(device, Flavour::Pinned, size, Some(memory), host);
        made.whole = Some(whole);
        Ok(made)
    }

    /// Allocates memory with one address for both: Intel's, or fine-grained SVM.
    pub(crate) fn managed(device: &Arc<Device>, size: u64, alignment: u64) -> Result<Self, Fault> {
        const OPERATION: &str = "clSVMAlloc";
        let (bytes, alignment) = with_room(device, size, alignment)?;
        if let Some(usm) = &device.platform.usm {
            let whole = HostAddress(usm.allocate_shared(device, bytes)?);
            return Ok(Self::addressed(
                device,
                Flavour::Managed,
                size,
                whole,
                alignment,
            ));
        }
        if !device.facts.fine_grained_svm {
            return Err(Fault::unsupported(
                OPERATION,
                "the device has no fine-grained SVM",
            ));
        }
        let whole = HostAddress(svm_alloc(device, bytes)?);
        Ok(Self::addressed(
            device,
            Flavour::Managed,
            size,
            whole,
            alignment,
        ))
    }

    /// Makes a memory object over host memory of others, which kernels and the host may use so.
    ///
    /// # Safety
    /// `size` bytes at `host` are readable, and writable as `access` says, until the allocation is
    /// dropped.
    pub(crate) unsafe fn adopt_host(
        device: &Arc<Device>,
        host: NonNull<c_void>,
        size: u64,
        access: Access,
    ) -> Result<Self, Fault> {
        if !device.aliases_host {
            return Err(Fault::unsupported(
                "adopt",
                "the device does not work in host memory itself",
            ));
        }
        let bytes = checked_size(device, size)?;
        let flags = match access {
            Access::Read => cl::CL_MEM_READ_ONLY | cl::CL_MEM_HOST_READ_ONLY,
            Access::ReadWrite => cl::CL_MEM_READ_WRITE,
        };
        let memory = create(
            device,
            flags | cl::CL_MEM_USE_HOST_PTR,
            bytes,
            host.as_ptr(),
        )?;
        let address = Some(HostAddress(host));
        let mut made = Self::new(device, Flavour::Device, size, Some(memory), address);
        made.adopted = true;
        made.access = access;
        Ok(made)
    }

    /// Lets the driver lock host memory of others: an object over it that stays mapped.
    ///
    /// # Safety
    /// `size` bytes at `host` are readable and writable until the allocation is dropped.
    pub(crate) unsafe fn register(
        device: &Arc<Device>,
        host: NonNull<c_void>,
        size: u64,
    ) -> Result<Self, Fault> {
        let bytes = checked_size(device, size)?;
        let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_USE_HOST_PTR;
        let memory = create(device, flags, bytes, host.as_ptr())?;
        let whole = map(&device.queue, &memory, all_of(bytes))?;
        let address = Some(HostAddress(host));
        let mut made = Self::new(device, Flavour::Pinned, size, Some(memory), address);
        made.whole = Some(HostAddress(whole));
        made.adopted = true;
        if whole != host {
            return Err(Fault::unsupported(
                "register_host",
                "the driver maps such memory somewhere else",
            ));
        }
        Ok(made)
    }

    /// Keeps a reference to a memory object of others.
    ///
    /// # Safety
    /// `raw` is a live memory object: nothing can check that it is one at all.
    pub(crate) unsafe fn adopt_native(
        device: &Arc<Device>,
        raw: *mut c_void,
        size: u64,
    ) -> Result<Self, Fault> {
        // SAFETY: `retain` needs a live memory object: the caller promises it.
        let memory = unsafe { Memory::retain(raw, device.driver_state()) }?;
        let context = usize::try_from(fact(&memory, cl::CL_MEM_CONTEXT)?).unwrap_or(0);
        let context = std::ptr::with_exposed_provenance_mut(context);
        // SAFETY: `inside` needs a live context: the object retains its own.
        let device = &unsafe { device.inside(context, "adopt") }?;
        if fact(&memory, cl::CL_MEM_TYPE)? != u64::from(cl::CL_MEM_OBJECT_BUFFER) {
            let why =
                "the memory object is an image or a pipe, whose bytes have an order of their own";
            return Err(Fault::invalid("adopt", why));
        }
        let actual = fact(&memory, cl::CL_MEM_SIZE)?;
        if size > actual {
            return Err(Fault::invalid(
                "adopt",
                format!("the memory object has {actual} bytes, not {size}"),
            ));
        }
        let is_read_only = fact(&memory, cl::CL_MEM_FLAGS)? & cl::CL_MEM_HOST_READ_ONLY != 0;
        let part = Part::of(&memory)?;
        let beneath = match part {
            // A driver may keep bytes of its own, and then the host's are others.
            _ if !device.aliases_host => None,
            Some(part) => {
                // SAFETY: `retain` needs a live memory object: its part keeps it alive.
                let whole = unsafe { Memory::retain(part.whole(), device.driver_state()) }?;
                Beneath::of(&whole)?
            }
            None => Beneath::of(&memory)?,
        };
        let mut made = Self::new(device, Flavour::Device, actual, Some(memory), None);
        made.adopted = true;
        made.part = part;
        made.beneath = beneath;
        if is_read_only {
            made.access = Access::Read;
        }
        Ok(made)
    }

    /// Remembers a command that uses the memory.
    pub(crate) fn used_by(&self, command_event: &Arc<CommandEvent>) {
        self.users.add(command_event, progress::is_over);
    }

    /// Waits for the commands of ours that use the memory; what became of them is told elsewhere.
    pub(crate) fn settle(&self) -> Result<(), Fault> {
        self.device.driver_state().check("settle")?;
        self.users.settle(|command_event| {
            if let Progress::Failed(fault) = progress::wait_out(command_event)? {
                log::debug!(target: TARGET, "an earlier command failed: {fault}");
            }
            Ok(())
        })
    }

    /// Checks that `size` bytes at `offset` lie inside.
    pub(crate) fn range(&self, offset: u64, size: u64) -> Result<(usize, usize), Fault> {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.size);
        match (usize::try_from(offset), usize::try_from(size)) {
            (Ok(offset), Ok(size)) if inside => Ok((offset, size)),
            _ => Err(Fault::invalid(
                "range",
                format!(
                    "{size} bytes at {offset} leave an allocation of {} bytes",
                    self.size
                ),
            )),
        }
    }

    /// The memory object, for commands; none for managed memory.
    pub(crate) fn object(&self) -> Option<&Memory> {
        // A pinned object stays mapped, and a mapped object must not be used by commands.
        self.memory
            .as_ref()
            .filter(|_| self.flavour == Flavour::Device)
    }

    /// The object that commands name, and where the memory begins in it. A part is named by its whole:
    /// `PoCL` crashes in rectangles of a part, and only so is it seen that two ends are one memory.
    pub(crate) fn named(&self) -> Option<(*mut c_void, u64)> {
        let object = self.object()?;
        Some(match self.part {
            Some(part) => (part.whole(), part.origin),
            None => (object.raw(), 0),
        })
    }

    /// Where an address is in the object that commands name, if all of `reach` around it is memory that the
    /// object was made over.
    pub(crate) fn offset_in_named(&self, at: *mut c_void, reach: Reach) -> Option<usize> {
        self.beneath?.offset_of(at, reach)
    }

    /// The object that it is a part of, as the word by which others know that.
    pub(crate) fn whole_word(&self) -> Option<u64> {
        self.part.map(|part| word_of(part.whole()))
    }

    /// The word by which others know it, where that is a memory object.
    pub(crate) fn handle_word(&self) -> Option<u64> {
        self.object().map(Memory::word)
    }

    /// Where the host sees an object without a mapping, because all devices work in that very memory.
    pub(crate) fn seen_in_place(&self) -> Option<NonNull<c_void>> {
        let host = self.host.filter(|_| self.device.platform.only_cpus);
        host.map(|host| host.0)
    }

    /// Where the host reaches it, if anywhere.
    pub(crate) fn host_word(&self) -> Option<u64> {
        self.host.map(|host| word_of(host.0.as_ptr()))
    }

    /// The same where an address alone says that it is this memory: for what was adopted, an
    /// object over host memory, the address is still that of the host's own.
    pub(crate) fn known_host_word(&self) -> Option<u64> {
        self.host_word().filter(|_| !self.is_adopted_object())
    }

    /// Whether it was registered: host memory of others that is locked, under its own address.
    pub(crate) fn is_registered(&self) -> bool {
        self.adopted && self.flavour == Flavour::Pinned
    }

    /// Whether it was adopted: an object of others, or one over host memory of others.
    pub(crate) fn is_adopted_object(&self) -> bool {
        self.adopted && self.flavour == Flavour::Device
    }

    /// Memory that is an address and no object.
    fn addressed(
        device: &Arc<Device>,
        flavour: Flavour,
        size: u64,
        whole: HostAddress,
        alignment: usize,
    ) -> Self {
        let mut made = Self::new(device, flavour, size, None, whole.aligned(alignment));
        made.whole = Some(whole);
        made
    }

    fn new(
        device: &Arc<Device>,
        flavour: Flavour,
        size: u64,
        memory: Option<Memory>,
        host: Option<HostAddress>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let beneath = host.map(|host| Beneath::new(host.0, size));
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device: Arc::clone(device),
            flavour,
            size,
            adopted: false,
            access: Access::ReadWrite,
            counted: None,
            memory,
            part: None,
            beneath,
            host,
            whole: None,
            users: Users::default(),
            views: Views::default(),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let driver_state = self.device.driver_state();
        let Some(whole) = self.whole else { return };
        if driver_state.check("free").is_err() {
            driver_state.leak();
            return;
        }
        let given = match (&self.memory, self.device.platform.usm) {
            // The object goes with its field.
            (Some(memory), _) => unmap(&self.device.queue, memory, whole.0)
                .and_then(|command_event| progress::finish(&command_event)),
            // SAFETY: `free` needs memory of this context with no later use: `addressed` got it from
            // the same functions, and this is its last owner.
            (None, Some(usm)) => unsafe { usm.free(self.device.context(), whole.0) },
            (None, None) => {
                let context = self.device.context().raw();
                // SAFETY: `svm_free` needs SVM of this context with no later use: `managed` made
                // it, and this is its last owner.
                unsafe { cl::svm_free(context, whole.0.as_ptr()) }
                    .map_err(|code| Fault::native("clSVMFree", code))
            }
        };
        if let Err(fault) = given {
            driver_state.record_late(fault);
        }
    }
}

/// An address in host memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostAddress(NonNull<c_void>);

impl HostAddress {
    /// The first multiple of `alignment` from here on.
    fn aligned(self, alignment: usize) -> Option<Self> {
        let gap = self.0.as_ptr().cast::<u8>().align_offset(alignment);
        NonNull::new(self.0.as_ptr().wrapping_byte_add(gap)).map(Self)
    }
}

// SAFETY: an address is a number; the code that reads through it answers for the access.
unsafe impl Send for HostAddress {}
// SAFETY: as above.
unsafe impl Sync for HostAddress {}

/// An object's bytes, for whatever the host likes.
const fn all_of(size: usize) -> Range {
    Range {
        offset: 0,
        size,
        access: Access::ReadWrite,
    }
}

/// A memory object; `host` is null or outlives it.
pub(crate) fn create(
    device: &Device,
    flags: u64,
    bytes: usize,
    host: *mut c_void,
) -> Result<Memory, Fault> {
    const OPERATION: &str = "clCreateBuffer";
    device.driver_state().check(OPERATION)?;
    // SAFETY: `create_buffer` needs a live context, and `bytes` usable bytes at `host` if it is not
    // null: callers pass memory of theirs that outlives the object.
    let raw = unsafe { cl::create_buffer(device.context().raw(), flags, bytes, host) }
        .map_err(|code| Fault::native(OPERATION, code))?;
    // SAFETY: `adopt` needs a live object with a reference to give: it was just created.
    unsafe { Memory::adopt(raw, device.driver_state(), OPERATION) }
}

fn svm_alloc(device: &Device, bytes: usize) -> Result<NonNull<c_void>, Fault> {
    const OPERATION: &str = "clSVMAlloc";
    device.driver_state().check(OPERATION)?;
    let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_SVM_FINE_GRAIN_BUFFER;
    // SAFETY: `svm_alloc` needs a live context; wrong flags are refused by it.
    let raw = unsafe { cl::svm_alloc(device.context().raw(), flags, bytes, 0) }
        .map_err(|code| Fault::native(OPERATION, code))?;
    let short = || Fault::new(Kind::OutOfDeviceMemory, OPERATION, "the driver gave no SVM");
    NonNull::new(raw).ok_or_else(short)
}

/// Drivers align to their largest type only, so room is added to align inside.
fn with_room(device: &Device, size: u64, alignment: u64) -> Result<(usize, usize), Fault> {
    let alignment = alignment.max(256);
    let larger = size.saturating_add(alignment);
    let wanted = usize::try_from(alignment)
        .ok()
        .filter(|wanted| wanted.is_power_of_two());
    let wanted = wanted.ok_or_else(|| Fault::invalid("allocate", "no such alignment"))?;
    Ok((checked_size(device, larger)?, wanted))
}

fn checked_size(device: &Device, size: u64) -> Result<usize, Fault> {
    let largest = device.facts.largest_allocation_bytes;
    if size > largest {
        return Err(Fault::new(
            Kind::OutOfDeviceMemory,
            "allocate",
            format!("{size} bytes are more than the {largest} that the device gives at once"),
        ));
    }
    usize::try_from(size)
        .ok()
        .ok_or_else(|| Fault::invalid("allocate", "the size is beyond this machine"))
}
