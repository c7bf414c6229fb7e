//! Memory of a plugin that gives itself back, and the calls that touch it at once.
#![expect(unsafe_code, reason = "hooks that touch memory are unsafe to call")]

use std::ffi::c_void;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, FillArgs, MemoryKind, PointerInfo, Side,
    StreamHandle, StridedArgs,
};

use crate::event::note;
use crate::host_memory::HostMemory;
use crate::layout::Region;
use crate::registration::Registration;

/// Memory of a plugin: allocated, or adopted from the host. It gives itself back when dropped.
#[derive(Debug)]
pub(crate) struct Allocation<'h> {
    hooks: &'h Hooks,
    side: Side,
    size: u64,
    state: State,
}

/// Where the host sees a memory that is mapped.
#[derive(Debug)]
#[must_use = "it is mapped until the view is given to `unmap`"]
pub(crate) struct View {
    start: *mut c_void,
    bytes: u64,
}

impl View {
    /// What the host sees there, while nobody writes.
    pub(crate) fn shown(&self) -> Result<Vec<u8>, Error> {
        let count = usize::try_from(self.bytes).map_err(|_beyond| misuse("too large to map"))?;
        // SAFETY: a slice needs
        // - `count` bytes to read: `map` answered the address of so many, and it is not null;
        // - a live mapping: only `unmap` ends it, which takes the view;
        // - no writer: the device does not touch the memory, by contract, and the host only reads.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), count) };
        Ok(bytes.to_vec())
    }
}

#[derive(Debug)]
enum State {
    Allocated,
    Adopted(HostMemory),
    Gone,
}

impl<'h> Allocation<'h> {
    /// Allocates.
    pub(crate) fn new(hooks: &'h Hooks, args: AllocateArgs) -> Result<Self, Error> {
        let address = hooks.allocate(args)?;
        let side = Side {
            address,
            kind: args.kind,
            device: args.device,
        };
        Ok(Self {
            hooks,
            side,
            size: args.size,
            state: State::Allocated,
        })
    }

    /// Takes device memory that was allocated on a stream.
    pub(crate) const fn over(hooks: &'h Hooks, device: u32, address: Address, size: u64) -> Self {
        let kind = MemoryKind::DEVICE;
        let side = Side {
            address,
            kind,
            device,
        };
        let state = State::Allocated;
        Self {
            hooks,
            side,
            size,
            state,
        }
    }

    /// Forgets the memory, which somebody else frees.
    pub(crate) fn give_up(mut self) -> Address {
        self.state = State::Gone;
        self.side.address
    }

    /// Adopts host memory, and keeps it until the adoption ends.
    pub(crate) fn adopt(
        hooks: &'h Hooks,
        device: u32,
        mut memory: HostMemory,
        flags: AdoptFlags,
    ) -> Result<Self, Error> {
        let size = memory.size();
        let foreign = Address::pointer(memory.expose());
        // SAFETY: `adopt` needs
        // - memory that is valid until the adoption ends: `memory` moves into the result, which
        //   gives it back after `release_adopted` only, and leaks it when that fails.
        let address = unsafe { hooks.adopt(device, foreign, MemoryKind::HOST, size, flags) }?;
        let side = Side {
            address,
            kind: MemoryKind::DEVICE,
            device,
        };
        Ok(Self {
            hooks,
            side,
            size,
            state: State::Adopted(memory),
        })
    }

    /// Adopts `size` bytes of registered host memory at `offset`, and then ends the registration.
    pub(crate) fn adopt_registered(
        registered: Registration<'h>,
        offset: u64,
        size: u64,
    ) -> Result<Self, Error> {
        let whole = registered.bytes().len() as u64;
        if offset.checked_add(size).is_none_or(|end| end > whole) {
            return Err(misuse("an adoption of the suite leaves its memory"));
        }
        let (hooks, device) = (registered.hooks(), registered.device());
        let foreign = Address::pointer(registered.word() + offset);
        let flags = AdoptFlags::empty();
        // SAFETY: `adopt` needs
        // - memory that is valid until the adoption ends: `registered` has it, and hands it on below,
        //   to who gives it back after `release_adopted` only, and leaks it when that fails.
        let address = unsafe { hooks.adopt(device, foreign, MemoryKind::HOST, size, flags) }?;
        let memory = match registered.unregister() {
            Ok(memory) => memory,
            Err(error) => {
                // The memory was leaked, so it does not matter what becomes of the adoption.
                note(hooks.release_adopted(device, address));
                return Err(error);
            }
        };
        let kind = MemoryKind::DEVICE;
        Ok(Self {
            hooks,
            side: Side {
                address,
                kind,
                device,
            },
            size,
            state: State::Adopted(memory),
        })
    }

    pub(crate) const fn address(&self) -> Address {
        self.side.address
    }

    pub(crate) const fn side(&self) -> Side {
        self.side
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The address `bytes` behind the start.
    pub(crate) fn at(&self, bytes: u64) -> Address {
        self.side.address.advanced(bytes).unwrap_or_default()
    }

    /// The same memory as a side of a copy, from the byte at `bytes` on.
    pub(crate) fn side_at(&self, bytes: u64) -> Side {
        Side {
            address: self.at(bytes),
            ..self.side
        }
    }

    /// Asks who owns the byte at `offset`.
    pub(crate) fn query(&self, offset: u64) -> Result<PointerInfo, Error> {
        self.hooks.pointer_query(self.at(offset))
    }

    /// Writes bytes at `offset`, at once.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let length = bytes.len() as u64;
        copy(
            self.hooks,
            &mut Place::Memory(self, offset),
            &mut Place::Source(bytes, 0),
            length,
        )
    }

    /// Reads bytes at `offset`, at once.
    pub(crate) fn read(&self, offset: u64, count: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0xa5; count];
        let mut dst = Place::Target(&mut bytes, 0);
        copy(
            self.hooks,
            &mut dst,
            &mut Place::Memory(self, offset),
            count as u64,
        )?;
        Ok(bytes)
    }

    /// Frees, and says what the hook answered.
    pub(crate) fn free(mut self) -> Result<(), Error> {
        self.state = State::Gone;
        free_address(self.hooks, self.side.address, self.side.kind)
    }

    /// Ends an adoption, and gives the host memory back.
    pub(crate) fn release(mut self) -> Result<HostMemory, Error> {
        let State::Adopted(memory) = std::mem::replace(&mut self.state, State::Gone) else {
            return Err(misuse("the memory was not adopted"));
        };
        match self
            .hooks
            .release_adopted(self.side.device, self.side.address)
        {
            Ok(()) => Ok(memory),
            Err(error) => {
                memory.leak();
                Err(error)
            }
        }
    }

    /// Lets the host see and change the bytes through the hook `map`.
    pub(crate) fn through_map(&self, change: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let view = self.map()?;
        let count = usize::try_from(self.size).map_err(|_beyond| misuse("too large to map"))?;
        // SAFETY: a slice needs
        // - `count` bytes to read and write: `map` answered their address, and it is not null;
        // - no other user: while it is mapped the device touches the memory for what it is
        //   asked then, and nothing is.
        let bytes = unsafe { std::slice::from_raw_parts_mut(view.start.cast::<u8>(), count) };
        change(bytes);
        self.unmap(view)
    }

    /// Maps all of it.
    pub(crate) fn map(&self) -> Result<View, Error> {
        let (device, address) = (self.side.device, self.side.address);
        let pointer = self.hooks.map(device, address, self.size)?;
        if pointer.is_null() {
            return Err(misuse("`map` answered a null pointer"));
        }
        Ok(View {
            start: pointer,
            bytes: self.size,
        })
    }

    /// Ends a view of this memory.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "nobody looks at a view afterwards"
    )]
    pub(crate) fn unmap(&self, view: View) -> Result<(), Error> {
        let (device, address) = (self.side.device, self.side.address);
        // SAFETY: `unmap` needs
        // - no later use of the mapping: the view, by which it is used, was given away.
        unsafe { self.hooks.unmap(device, address, view.start) }
    }

    /// What the host sees at the address that a pointer query gave for the start.
    pub(crate) fn host_view(&self, info: &PointerInfo) -> Result<Vec<u8>, Error> {
        let count = usize::try_from(self.size).map_err(|_beyond| misuse("too large to look at"))?;
        let word =
            usize::try_from(info.host_pointer).map_err(|_beyond| misuse("no host address"))?;
        if word == 0 {
            return Err(misuse("the pointer query answered no host address"));
        }
        let start: *const u8 = std::ptr::with_exposed_provenance(word);
        // SAFETY: a slice needs
        // - `count` bytes to read: the plugin says that the host may dereference this address;
        // - no writer: every earlier call on the memory was a synchronous one.
        let bytes = unsafe { std::slice::from_raw_parts(start, count) };
        Ok(bytes.to_vec())
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        let result = match std::mem::replace(&mut self.state, State::Gone) {
            State::Gone => return,
            State::Allocated => free_address(self.hooks, self.side.address, self.side.kind),
            State::Adopted(memory) => {
                let released = self
                    .hooks
                    .release_adopted(self.side.device, self.side.address);
                if released.is_err() {
                    memory.leak();
                }
                released
            }
        };
        if let Err(error) = result {
            log::warn!(target: "crossdock::memory", "{error}: {}", error.why());
        }
    }
}

/// Calls the hook `free` with any address: what is not an allocation has to be refused.
pub(crate) fn free_address(hooks: &Hooks, address: Address, kind: MemoryKind) -> Result<(), Error> {
    // SAFETY: `free` needs
    // - no work in flight: this crate frees after synchronous calls and finished streams only;
    // - no later use: callers give up the memory, or the address was never an allocation.
    unsafe { hooks.free(address, kind) }
}

/// One end of a copy: memory of the plugin or of the host, with the byte where it begins.
#[derive(Debug)]
pub(crate) enum Place<'a> {
    /// Memory of the plugin.
    Memory(&'a Allocation<'a>, u64),
    /// The host memory that was adopted, by the host's own address.
    Beneath(&'a Allocation<'a>, u64),
    /// Host memory that is read.
    Source(&'a [u8], u64),
    /// Host memory that is written.
    Target(&'a mut [u8], u64),
    /// What a plugin is told of memory, and may have to refuse: whose it is, or that there is so much of it.
    /// Where it is written, a plugin that does not look writes over bytes of the suite's, or a few behind an
    /// allocation.
    Claimed(Side),
}

impl Place<'_> {
    /// The side, when bytes from `before` before to `after` behind its beginning are inside. What is claimed
    /// is not looked at.
    fn side(&mut self, before: u64, after: u64) -> Result<Side, Error> {
        let (whole, offset, size) = match self {
            Self::Claimed(side) => return Ok(*side),
            Self::Memory(memory, offset) => (memory.side, *offset, memory.size),
            Self::Beneath(memory, offset) => match &memory.state {
                State::Adopted(host) => {
                    let start = host.bytes().as_ptr().addr();
                    (host_side(start), *offset, memory.size)
                }
                _ => return Err(misuse("the memory was not adopted")),
            },
            Self::Source(bytes, offset) => {
                let start = bytes.as_ptr().expose_provenance();
                (host_side(start), *offset, bytes.len() as u64)
            }
            Self::Target(bytes, offset) => {
                let start = bytes.as_mut_ptr().expose_provenance();
                (host_side(start), *offset, bytes.len() as u64)
            }
        };
        let inside = offset >= before && offset.checked_add(after).is_some_and(|end| end <= size);
        if !inside {
            return Err(misuse("a copy of the suite leaves its memory"));
        }
        Ok(Side {
            address: whole.address.advanced(offset).unwrap_or_default(),
            ..whole
        })
    }

    const fn is_read_only(&self) -> bool {
        matches!(self, Self::Source(..))
    }
}

/// Copies bytes at once.
pub(crate) fn copy(
    hooks: &Hooks,
    dst: &mut Place<'_>,
    src: &mut Place<'_>,
    bytes: u64,
) -> Result<(), Error> {
    writable(dst)?;
    let args = CopyArgs {
        dst: dst.side(0, bytes)?,
        src: src.side(0, bytes)?,
        bytes,
    };
    // SAFETY: `copy` needs
    // - both sides valid for `bytes`: `side` checked both, and the places borrow their memory; what is claimed
    //   the contract has the plugin compare with its own table, and refuse where it is not so;
    // - until the copy is done: it is done when a call without a stream returns.
    unsafe { hooks.copy(args, StreamHandle::NONE) }
}

/// Copies a strided region at once.
pub(crate) fn copy_strided(
    hooks: &Hooks,
    dst: &mut Place<'_>,
    src: &mut Place<'_>,
    region: &Region,
) -> Result<(), Error> {
    writable(dst)?;
    let ((dst_before, dst_after), (src_before, src_after)) = region.reach();
    let rank =
        u32::try_from(region.shape.len()).map_err(|_beyond| misuse("too many dimensions"))?;
    let args = StridedArgs {
        dst: dst.side(dst_before, dst_after)?,
        src: src.side(src_before, src_after)?,
        element_bits: region.element_bits,
        rank,
        shape: region.shape.as_ptr(),
        dst_strides: region.dst_strides.as_ptr(),
        src_strides: region.src_strides.as_ptr(),
    };
    // SAFETY: `copy_strided` needs
    // - arrays of `rank` numbers: a `Region` holds three of equal length;
    // - every element valid: `side` checked the reach of both, and the places borrow their memory; what is
    //   claimed is compared and refused, as by `copy`;
    // - until done: it is done when a call without a stream returns.
    unsafe { hooks.copy_strided(args, StreamHandle::NONE) }
}

/// Fills a range at once. `pattern_bytes` may be a length that has to be refused.
pub(crate) fn fill(
    hooks: &Hooks,
    dst: &mut Place<'_>,
    bytes: u64,
    pattern: [u8; 16],
    pattern_bytes: u32,
) -> Result<(), Error> {
    writable(dst)?;
    let dst = dst.side(0, bytes)?;
    let args = FillArgs {
        dst,
        bytes,
        pattern,
        pattern_bytes,
        reserved: 0,
    };
    // SAFETY: `fill` needs
    // - the range valid for writes: `side` checked it, and the place borrows its memory; what is claimed is
    //   compared and refused, as by `copy`;
    // - until done: it is done when a call without a stream returns.
    unsafe { hooks.fill(args, StreamHandle::NONE) }
}

/// Host memory from this address on.
pub(crate) fn host_side(start: usize) -> Side {
    Side {
        address: Address::pointer(start as u64),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

fn writable(place: &Place<'_>) -> Result<(), Error> {
    if place.is_read_only() {
        Err(misuse("a copy of the suite writes a source"))
    } else {
        Ok(())
    }
}

pub(crate) fn misuse(why: &str) -> Error {
    Error::Misuse {
        operation: "run the suite",
        why: why.to_owned(),
    }
}
