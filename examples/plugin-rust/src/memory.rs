//! Memory: blocks by their addresses, and copies between them.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, MemoryKind, PointerFlags, PointerInfo, Side, Status,
};
use crossdock_sdk::handles::Handles;
use crossdock_sdk::plugin::Error;
use crossdock_sdk::pointers::{PointerEntry, PointerTable};

use crate::check_index;

/// The live blocks. A query takes no lock: the table of addresses leads to a block's handle, and a
/// handle that is out of date leads to nothing.
#[derive(Default)]
pub(crate) struct Memory {
    addresses: PointerTable,
    blocks: Handles<u64, Block>,
}

/// One allocation, given back when nobody uses it any more: a copy on a stream holds its blocks.
struct Block {
    base: *mut u8,
    layout: Layout,
    kind: MemoryKind,
}

// SAFETY: a block is plain memory, which is read and written through copies of its address only; that
// no two of them conflict is promised by who asks for the copies.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(size: u64, alignment: u64, kind: MemoryKind) -> Result<Self, Error> {
        let operation = "allocate";
        let exhausted = || Error::new(Status::OOM_DEVICE, operation, "no memory is left");
        let (Ok(size), Ok(alignment)) = (usize::try_from(size), usize::try_from(alignment)) else {
            return Err(exhausted());
        };
        if size == 0 || !alignment.is_power_of_two() {
            return Err(Error::new(
                Status::INVALID,
                operation,
                "no such size or alignment",
            ));
        }
        let layout = Layout::from_size_align(size, alignment.max(256));
        let layout = layout.map_err(|_too_large| exhausted())?;
        // SAFETY: the size is not 0.
        let base = unsafe { alloc(layout) };
        if base.is_null() {
            return Err(exhausted());
        }
        Ok(Self { base, layout, kind })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` got it with this layout, and nobody else gives it back.
        unsafe { dealloc(self.base, self.layout) };
    }
}

impl Memory {
    pub(crate) fn allocate(&self, args: &AllocateArgs) -> Result<Address, Error> {
        let operation = "allocate";
        if !matches!(args.kind, MemoryKind::DEVICE | MemoryKind::PINNED) {
            return Err(Error::unsupported(operation));
        }
        let block = Block::new(args.size, args.alignment, args.kind)?;
        let base = block.base.expose_provenance() as u64;
        // Of the process: a plugin may be opened again, and no number is given twice.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let handle = self.blocks.insert(operation, block)?;
        let entered = self
            .addresses
            .insert(PointerEntry::new(base, args.size, number, handle));
        entered.map_err(|error| {
            // Given back here, where it is dropped.
            drop(self.blocks.remove(operation, handle));
            Error::new(Status::OOM_HOST, operation, error.to_string())
        })?;
        Ok(Address::pointer(base))
    }

    pub(crate) fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        let operation = "free";
        let not_owner = || {
            let why = "no allocation of this kind begins here";
            Error::new(Status::NOT_OWNER, operation, why)
        };
        let base = address.as_pointer().ok_or_else(not_owner)?;
        let is_of_kind = |entry: &PointerEntry| {
            let block = self.blocks.find(operation, entry.payload);
            block.is_ok_and(|block| block.kind == kind)
        };
        // First the answer of a query ends, then the memory: its address may be given out again at once.
        let entry = self
            .addresses
            .take_if(base, is_of_kind)
            .ok_or_else(not_owner)?;
        drop(self.blocks.remove(operation, entry.payload)?);
        Ok(())
    }

    pub(crate) fn query(&self, asked: Address) -> PointerInfo {
        let Some((word, entry, block)) = asked.as_pointer().and_then(|word| self.at(word)) else {
            return PointerInfo::default();
        };
        PointerInfo {
            kind: block.kind,
            device: 0,
            base: Address::pointer(entry.base),
            size: entry.size,
            allocation_id: entry.allocation,
            host_pointer: word,
            device_pointer: word,
            flags: PointerFlags::HOST_ACCESSIBLE,
            ..PointerInfo::default()
        }
    }

    fn at(&self, word: u64) -> Option<(u64, PointerEntry, Arc<Block>)> {
        let entry = self.addresses.lookup(word)?;
        Some((
            word,
            entry,
            self.blocks.find("pointer_query", entry.payload).ok()?,
        ))
    }

    /// A copy that is checked and can be made. A side in a block lies inside of it, and the copy holds the
    /// block; nobody can check one in the host's memory.
    ///
    /// # Safety
    /// - A side in the host's memory is valid for `args.bytes` bytes until the copy is made or dropped.
    pub(crate) unsafe fn copy(&self, args: &CopyArgs) -> Result<Copy, Error> {
        let (dst, src) = (
            self.side(&args.dst, args.bytes)?,
            self.side(&args.src, args.bytes)?,
        );
        if dst.word.abs_diff(src.word) < args.bytes {
            return Err(invalid("the sides overlap"));
        }
        let bytes = usize::try_from(args.bytes).map_err(|_too_large| invalid("too many bytes"))?;
        Ok(Copy { dst, src, bytes })
    }

    /// One side: inside of a block, or the host's memory, for which the caller vouches.
    fn side(&self, side: &Side, bytes: u64) -> Result<Place, Error> {
        let operation = "copy";
        let word = side
            .address
            .as_pointer()
            .ok_or_else(|| Error::unsupported(operation))?;
        if side.kind != MemoryKind::HOST {
            check_index(operation, side.device)?;
        }
        let known = self.at(word);
        if let Some((word, entry, block)) = known {
            if entry.base + entry.size - word < bytes {
                return Err(invalid("a side reaches past its allocation"));
            }
            return Ok(Place {
                word,
                _block: Some(block),
            });
        }
        // Memory that another plugin pinned is host memory for this one.
        match side.kind {
            MemoryKind::HOST | MemoryKind::PINNED => Ok(Place { word, _block: None }),
            _ => Err(Error::new(
                Status::NOT_OWNER,
                operation,
                "the address is not known here",
            )),
        }
    }
}

/// Where a side begins, and the block that it lies in, which lives as long as this.
struct Place {
    word: u64,
    _block: Option<Arc<Block>>,
}

impl Place {
    fn pointer(&self) -> *mut u8 {
        with_exposed_provenance_mut(usize::try_from(self.word).unwrap_or(0))
    }
}

/// A copy on its way, perhaps through a stream.
pub(crate) struct Copy {
    dst: Place,
    src: Place,
    bytes: usize,
}

impl Copy {
    pub(crate) fn run(&self) {
        // SAFETY: `Memory::copy` saw that the sides are apart, and that each lies in a block, which this
        // holds, or in the host's memory, which the caller of that keeps valid until now.
        unsafe {
            self.src
                .pointer()
                .copy_to_nonoverlapping(self.dst.pointer(), self.bytes)
        };
    }
}

fn invalid(why: &'static str) -> Error {
    Error::new(Status::INVALID, "copy", why)
}
