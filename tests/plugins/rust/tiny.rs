//! A small plugin in Rust: host memory as one `ext_dev` device, the mandatory hooks only.
//!
//! `tests/e2e/tests/versions.rs` builds it against several versions of the sdk. The feature
//! `probe-panics` makes its probe panic, `other-allocator` gives it an allocator of its own.
#![expect(unsafe_code, reason = "allocates and copies raw memory")]

use std::alloc::{Layout, alloc, dealloc};

use crossdock_sdk::abi::{
    Address, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, MemoryInfo, MemoryKind, PointerInfo,
    ProbeInfo, QueryCost, Side, Status, StreamHandle,
};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::{Error, Groups, Host, Plugin, describe};
use crossdock_sdk::pointers::{PointerEntry, PointerTable};

/// Allocator calls are forwarded; that it is not the host's is what is tested.
#[cfg(feature = "other-allocator")]
struct Forwarding;

#[cfg(feature = "other-allocator")]
// SAFETY: forwarded to the system's allocator, with a guard of 64 bytes behind each block.
unsafe impl std::alloc::GlobalAlloc for Forwarding {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Layout::from_size_align(layout.size() + 64, layout.align()) {
            // SAFETY: the caller's conditions, and more bytes.
            Ok(more) => unsafe { std::alloc::System.alloc(more) },
            Err(_) => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Ok(more) = Layout::from_size_align(layout.size() + 64, layout.align()) {
            // SAFETY: `alloc` gave the block for this layout.
            unsafe { std::alloc::System.dealloc(block, more) };
        }
    }
}

#[cfg(feature = "other-allocator")]
#[global_allocator]
static ALLOCATOR: Forwarding = Forwarding;

/// The plugin: its allocations.
struct Tiny(PointerTable);

impl Tiny {
    /// A pointer to one side of a copy, where all its bytes are host memory or of one allocation.
    fn side(&self, side: &Side, bytes: u64) -> Result<*mut u8, Error> {
        let word = side.address.as_pointer().ok_or_else(|| Error::unsupported("copy"))?;
        let block = self.0.lookup(word);
        let inside = block.is_some_and(|block| block.base + block.size - word >= bytes);
        if side.kind == MemoryKind::HOST || inside {
            return Ok(pointer(word));
        }
        Err(Error::new(Status::NOT_OWNER, "copy", "not an allocation of this plugin"))
    }
}

impl Plugin for Tiny {
    const DESCRIPTION: &'static str = describe!(name = "tiny", vendor = "tests", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new();
    const QUERY_COST: QueryCost = QueryCost::TABLE;

    fn probe() -> Result<ProbeInfo, Error> {
        if cfg!(feature = "probe-panics") {
            panic!("the probe panics");
        }
        Ok(ProbeInfo::ready(1, ""))
    }

    fn open(_: Host) -> Result<Self, Error> {
        Ok(Self(PointerTable::new()))
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        let mut info = DeviceInfo::new(DeviceType::EXT_DEV, 0, "Host memory of a tiny plugin");
        info.total_memory = 1 << 30;
        info.capabilities = Capabilities::HOST_ACCESSIBLE;
        Ok(info)
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Ok(MemoryInfo::default())
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let layout = layout(args.size)
            .ok_or_else(|| Error::new(Status::INVALID, "allocate", "too large"))?;
        // SAFETY: the host never asks for 0 bytes.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            return Err(Error::new(Status::OOM_DEVICE, "allocate", "no memory is left"));
        }
        let base = block.expose_provenance() as u64;
        if let Err(error) = self.0.insert(PointerEntry::new(base, args.size, base, 0)) {
            // SAFETY: it was allocated above, with this layout.
            unsafe { dealloc(block, layout) };
            return Err(Error::new(Status::OOM_HOST, "allocate", error.to_string()));
        }
        Ok(Address::pointer(base))
    }

    unsafe fn free(&self, address: Address, _: MemoryKind) -> Result<(), Error> {
        let block = address.as_pointer().and_then(|base| self.0.take(base));
        let layout = block.and_then(|block| layout(block.size));
        let (Some(block), Some(layout)) = (block, layout) else {
            return Err(Error::new(Status::NOT_OWNER, "free", "not an allocation of this plugin"));
        };
        // SAFETY: `allocate` got the block with this layout, and it was in the table until now.
        unsafe { dealloc(pointer(block.base), layout) };
        Ok(())
    }

    unsafe fn copy(&self, args: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        let dst = self.side(&args.dst, args.bytes)?;
        let src = self.side(&args.src, args.bytes)?;
        let bytes = usize::try_from(args.bytes).map_err(|_| Error::unsupported("copy"))?;
        // SAFETY: both sides have `bytes` bytes, by the book or by the caller's promise.
        unsafe { src.copy_to(dst, bytes) };
        Ok(())
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        let block = address.as_pointer().and_then(|word| self.0.lookup(word));
        Ok(block.map_or_else(PointerInfo::default, |block| PointerInfo {
            kind: MemoryKind::DEVICE,
            base: Address::pointer(block.base),
            size: block.size,
            ..PointerInfo::default()
        }))
    }
}

fn layout(size: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(size).ok()?, 256).ok()
}

fn pointer(word: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(word).unwrap_or(0))
}

crossdock_sdk::export_plugin!(Tiny);
