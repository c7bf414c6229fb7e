//! The hooks that move bytes: copies, fills, and memory that host and device share.
#![expect(
    unsafe_code,
    reason = "host addresses and handles of others arrive as plain words"
)]

use std::{ffi::c_void, ptr::NonNull, sync::Arc};

use crossdock_sdk::{
    abi::{
        Address, AddressForm, AdoptFlags, CopyArgs, FillArgs, MemoryKind, Side, StreamHandle,
        StridedArgs,
    },
    plugin::{Adopt, Error, Fill, Map, Register, Strided},
};

use crate::{
    copy,
    device::Device,
    fault::{Fault, Kind},
    memory::{Allocation, Flavour},
    place::Place,
    plugin::{OpenCl, not_owner},
    rect::{Dimension, Plan},
    stream::Stream,
    view::Access,
    word::can_be_object,
};

impl Strided for OpenCl {
    unsafe fn copy_strided(&self, args: StridedArgs, stream: StreamHandle) -> Result<(), Error> {
        self.check("copy_strided")?;
        // SAFETY: `plan` needs arrays of `rank` numbers: the caller promises them.
        let plan = unsafe { plan(&args) }?;
        let (dst, src) = (self.place(&args.dst)?, self.place(&args.src)?);
        let stream = self.stream_for(stream)?;
        let device = self.worker(stream.as_deref(), [(&dst, &args.dst), (&src, &args.src)])?;
        // SAFETY: `strided` needs host ends valid for the span: the caller promises every element.
        unsafe { copy::strided(device, stream.as_deref(), &dst, &src, &plan) }.map_err(Error::from)
    }
}

impl Fill for OpenCl {
    unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error> {
        self.check("fill")?;
        let length = usize::try_from(args.pattern_bytes).unwrap_or(0);
        let pattern = args
            .pattern
            .get(..length)
            .filter(|_| length.is_power_of_two());
        let pattern = pattern.ok_or_else(|| Fault::invalid("fill", "no such pattern length"))?;
        let dst = self.place(&args.dst)?;
        let stream = self.stream_for(stream)?;
        let device = self.worker(stream.as_deref(), [(&dst, &args.dst), (&dst, &args.dst)])?;
        copy::fill(device, stream.as_deref(), &dst, args.bytes, pattern).map_err(Error::from)
    }
}

impl Adopt for OpenCl {
    unsafe fn adopt(
        &self,
        device: u32,
        foreign: Address,
        kind: MemoryKind,
        size: u64,
        flags: AdoptFlags,
    ) -> Result<Address, Error> {
        self.check("adopt")?;
        let device = self.device(device, "adopt")?;
        let (made, offset) = match (kind, foreign.form) {
            (MemoryKind::HOST, AddressForm::POINTER) => {
                let start = NonNull::new(pointer_of(foreign)?)
                    .ok_or_else(|| Fault::invalid("adopt", "the address is null"))?;
                let access = if flags.contains(AdoptFlags::READ_ONLY) {
                    Access::Read
                } else {
                    Access::ReadWrite
                };
                // SAFETY: `adopt_host` needs `size` usable bytes until the release: the caller
                // promises them.
                (
                    unsafe { Allocation::adopt_host(device, start, size, access) }?,
                    0,
                )
            }
            (MemoryKind::DEVICE, AddressForm::HANDLE) => {
                let whole = foreign
                    .offset
                    .checked_add(size)
                    .filter(|_| foreign.word != 0);
                let whole = whole.ok_or_else(|| Fault::invalid("adopt", "no such object"))?;
                let raw = raw_of(foreign.word)?;
                let is_queue = |stream: &Arc<Stream>| stream.queue.word() == foreign.word;
                if !can_be_object(device, raw) || self.streams.all().iter().any(is_queue) {
                    return Err(Fault::invalid("adopt", "the word is no memory object").into());
                }
                // SAFETY: `adopt_native` needs a live memory object: the caller vouches for it.
                (
                    unsafe { Allocation::adopt_native(device, raw, whole) }?,
                    foreign.offset,
                )
            }
            _ => return Err(Error::unsupported("adopt")),
        };
        let kept = self.pointers.insert(made)?;
        let word = kept.handle_word();
        let word = word.ok_or_else(|| Fault::invalid("adopt", "the memory has no handle"))?;
        Ok(Address::handle(word, offset))
    }

    fn release_adopted(&self, device: u32, adopted: Address) -> Result<(), Error> {
        const OPERATION: &str = "release_adopted";
        self.driver.driver_state.check(OPERATION)?;
        self.device(device, OPERATION)?;
        let is_handle = adopted.form == AddressForm::HANDLE;
        if !is_handle {
            return Err(not_owner(OPERATION, "adopted memory is named by its handle").into());
        }
        match self
            .pointers
            .remove(adopted.word, true, OPERATION, Allocation::is_adopted_object)?
        {
            Some(last) => last.hand_back().map_err(Error::from),
            None => self.check_host_memory_is_free(adopted.word),
        }
    }
}

impl OpenCl {
    /// Refuses to let go of host memory whose object is adopted under its handle as well.
    fn check_host_memory_is_free(&self, word: u64) -> Result<(), Error> {
        let still = self.pointers.by_handle(word);
        if still.is_none_or(|still| still.host_word().is_none()) {
            return Ok(());
        }
        let why = "the object over this host memory was adopted once more, by its handle";
        Err(Fault::new(Kind::Conflict, "release_adopted", why).into())
    }
}

impl Register for OpenCl {
    unsafe fn register_host(
        &self,
        device: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), Error> {
        const OPERATION: &str = "register_host";
        self.check(OPERATION)?;
        let device = self.device(device, OPERATION)?;
        let start = NonNull::new(pointer)
            .ok_or_else(|| Fault::invalid(OPERATION, "the address is null"))?;
        // SAFETY: `register` needs `size` usable bytes until the allocation goes: the caller
        // promises them until `unregister_host`.
        let made = unsafe { Allocation::register(device, start, size) }?;
        self.pointers.insert(made)?;
        Ok(())
    }

    fn unregister_host(&self, device: u32, pointer: *mut c_void) -> Result<(), Error> {
        const OPERATION: &str = "unregister_host";
        self.driver.driver_state.check(OPERATION)?;
        let device = self.device(device, OPERATION)?;
        let word = crate::handle::word_of(pointer);
        let gone = self.pointers.remove(word, false, OPERATION, |found| {
            found.is_registered() && found.device.id == device.id
        })?;
        drop(gone);
        Ok(())
    }
}

impl Map for OpenCl {
    fn map(&self, _device: u32, address: Address, size: u64) -> Result<*mut c_void, Error> {
        self.check("map")?;
        if self.has_address(address) {
            let why = "the host reaches this memory at its address, or not at all";
            return Err(Fault::unsupported("map", why).into());
        }
        let (found, offset) = self.object_at(address, "map")?;
        let mapped = found.map(offset, size)?;
        Ok(mapped.as_ptr())
    }

    fn unmap(&self, _device: u32, address: Address, pointer: *mut c_void) -> Result<(), Error> {
        self.driver.driver_state.check("unmap")?;
        let (found, _) = self.object_at(address, "unmap")?;
        let mapped =
            NonNull::new(pointer).ok_or_else(|| not_owner("unmap", "null is no mapping"))?;
        found.unmap(mapped).map_err(Error::from)
    }
}

impl OpenCl {
    /// The hook `copy`.
    ///
    /// # Safety
    /// Both sides are valid for `args.bytes` until the copy is done.
    pub(crate) unsafe fn copy_bytes(
        &self,
        args: &CopyArgs,
        stream: StreamHandle,
    ) -> Result<(), Fault> {
        self.check("copy")?;
        let (dst, src) = (self.place(&args.dst)?, self.place(&args.src)?);
        let stream = self.stream_for(stream)?;
        let device = self.worker(stream.as_deref(), [(&dst, &args.dst), (&src, &args.src)])?;
        // SAFETY: `contiguous` needs host ends valid for `bytes`: the caller promises them.
        unsafe { copy::contiguous(device, stream.as_deref(), &dst, &src, args.bytes) }
    }

    /// The stream behind a handle; none for a synchronous call.
    fn stream_for(&self, stream: StreamHandle) -> Result<Option<Arc<Stream>>, Fault> {
        if stream.is_none() {
            return Ok(None);
        }
        Ok(Some(self.streams.find("stream", stream)?))
    }

    /// What a side names; a word that nobody vouched for is refused, never looked into.
    fn place(&self, side: &Side) -> Result<Place, Fault> {
        if side.kind == MemoryKind::HOST {
            return pointer_of(side.address).map(Place::Host);
        }
        self.device(side.device, "copy")?;
        if side.address.form == AddressForm::HANDLE {
            let (allocation, offset) = self.object_at(side.address, "copy")?;
            return Ok(Place::Object { allocation, offset });
        }
        let pointer = pointer_of(side.address)?;
        match self.pointers.by_address(crate::handle::word_of(pointer)) {
            Some((allocation, offset)) if allocation.flavour == Flavour::Device => {
                Ok(Place::Object { allocation, offset })
            }
            Some((allocation, offset)) => {
                let shared = allocation.place(pointer, offset);
                Ok(shared.map_or(Place::Host(pointer), Place::Shared))
            }
            None => match self.place_of_others(pointer) {
                Some(shared) => Ok(Place::Shared(shared)),
                // Memory that another plugin pinned is host memory for this one.
                None if side.kind == MemoryKind::PINNED => Ok(Place::Host(pointer)),
                None => Err(unknown("copy")),
            },
        }
    }

    fn object_at(
        &self,
        address: Address,
        operation: &'static str,
    ) -> Result<(Arc<Allocation>, u64), Fault> {
        let known = match address.form {
            AddressForm::HANDLE => self.pointers.by_handle(address.word),
            _ => None,
        };
        known
            .map(|found| (found, address.offset))
            .ok_or_else(|| unknown(operation))
    }

    /// Whether it is memory with an address, of ours or of others, and no object.
    fn has_address(&self, address: Address) -> bool {
        let known = address.as_pointer().map(|_| self.look_up(address));
        known.is_some_and(|known| known.base.form == AddressForm::POINTER && known.size != 0)
    }

    /// The device whose queue does the work.
    fn worker<'a>(
        &'a self,
        stream: Option<&'a Stream>,
        sides: [(&'a Place, &Side); 2],
    ) -> Result<&'a Arc<Device>, Fault> {
        if let Some(stream) = stream {
            return Ok(&stream.device);
        }
        // Memory that the host does not reach is copied in its own context or not at all.
        for (place, _) in sides {
            if let Place::Shared(shared) = place
                && !shared.by_host
            {
                return Ok(&shared.device);
            }
        }
        for (place, _) in sides {
            if let Place::Object { allocation, .. } = place {
                return Ok(&allocation.device);
            }
        }
        for (place, _) in sides {
            if let Place::Shared(shared) = place {
                return Ok(&shared.device);
            }
        }
        let named = sides.iter().find(|(_, side)| side.kind != MemoryKind::HOST);
        let (_, side) = named.ok_or_else(|| {
            Fault::unsupported("copy", "neither side is memory of an OpenCL device")
        })?;
        self.device(side.device, "copy")
    }
}

/// Reads a strided copy's arrays and plans it.
///
/// # Safety
/// The arrays of `args` hold `rank` numbers each.
unsafe fn plan(args: &StridedArgs) -> Result<Plan, Fault> {
    const OPERATION: &str = "copy_strided";
    if args.element_bits == 0 || !args.element_bits.is_multiple_of(8) {
        return Err(Fault::unsupported(
            OPERATION,
            "elements that are not whole bytes",
        ));
    }
    let item = i64::from(args.element_bits / 8);
    // SAFETY: the caller's promise, passed on.
    let arrays = unsafe { args.arrays() };
    let missing = || Fault::invalid(OPERATION, "an array is missing");
    let [shape, dst, src] = arrays.ok_or_else(missing)?;
    let bytes = |stride: i64| {
        stride
            .checked_mul(item)
            .ok_or_else(|| Fault::invalid(OPERATION, "a stride beyond 64 bits"))
    };
    let mut dimensions = Vec::with_capacity(shape.len());
    for ((extent, dst), src) in shape.iter().zip(dst).zip(src) {
        let extent = u64::try_from(*extent).ok().filter(|extent| *extent > 0);
        let extent = extent.ok_or_else(|| Fault::invalid(OPERATION, "an extent below 1"))?;
        // The stride of a single element is never walked, so it may be anything.
        if extent > 1 {
            dimensions.push(Dimension {
                extent,
                dst: bytes(*dst)?,
                src: bytes(*src)?,
            });
        }
    }
    Plan::of(u64::from(args.element_bits / 8), &dimensions)
}

fn pointer_of(address: Address) -> Result<*mut c_void, Fault> {
    let word = address.as_pointer();
    raw_of(word.ok_or_else(|| Fault::invalid("copy", "host memory is named by an address"))?)
}

fn raw_of(word: u64) -> Result<*mut c_void, Fault> {
    usize::try_from(word)
        .map(std::ptr::with_exposed_provenance_mut)
        .ok()
        .ok_or_else(|| Fault::invalid("copy", "the word is beyond this machine's addresses"))
}

fn unknown(operation: &'static str) -> Fault {
    not_owner(
        operation,
        "the word is no memory of this plugin; adopt a `cl_mem` of others before using it",
    )
}
