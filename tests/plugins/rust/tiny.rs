//! A small plugin in Rust: host memory as one `ext_dev` device, the mandatory hooks only.
//!
//! `tests/e2e/tests/versions.rs` builds it against several versions of the sdk. The feature
//! `probe-panics` makes its probe panic, `other-allocator` gives it an allocator of its own.
#![expect(unsafe_code, reason = "allocates and copies raw memory")]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sdk::abi::{
    Address, AddressForm, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, MemoryInfo, MemoryKind,
    PointerInfo, ProbeInfo, QueryCost, Side, Status, StreamHandle,
};
use crossdock_sdk::plugin::{Error, Groups, Host, Plugin, describe, fixed_text};

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

/// The plugin: the sizes of its allocations by their addresses.
struct Tiny(Mutex<BTreeMap<usize, Layout>>);

impl Tiny {
    fn blocks(&self) -> MutexGuard<'_, BTreeMap<usize, Layout>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pointer to one side of a copy, where all its bytes are host memory or of one allocation.
    fn side(&self, side: &Side, bytes: u64) -> Result<*mut u8, Error> {
        let word = side.address.as_pointer().and_then(|word| usize::try_from(word).ok());
        let word = word.ok_or_else(|| Error::unsupported("copy"))?;
        let blocks = self.blocks();
        let block = blocks.range(..=word).next_back();
        let inside = block.is_some_and(|(base, layout)| {
            let end = (word - base) as u64 + bytes;
            end <= layout.size() as u64
        });
        if side.kind == MemoryKind::HOST || inside {
            return Ok(std::ptr::with_exposed_provenance_mut(word));
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
        Ok(Self(Mutex::default()))
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        Ok(DeviceInfo {
            dl_type: 12,
            dl_id: 0,
            uuid: [0; 16],
            name: fixed_text("Host memory of a tiny plugin"),
            pci_bus_id: [0; 32],
            driver_version: [0; 64],
            runtime_version: [0; 128],
            total_memory: 1 << 30,
            capabilities: Capabilities::HOST_ACCESSIBLE,
            address_form: AddressForm::POINTER,
            pinned_dl_type: 0,
            managed_dl_type: 0,
            reserved: 0,
        })
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Ok(MemoryInfo::default())
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let layout = usize::try_from(args.size)
            .ok()
            .and_then(|size| Layout::from_size_align(size, 256).ok())
            .ok_or_else(|| Error::new(Status::INVALID, "allocate", "too large"))?;
        // SAFETY: the host never asks for 0 bytes.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            return Err(Error::new(Status::OOM_DEVICE, "allocate", "no memory is left"));
        }
        let base = block.expose_provenance();
        self.blocks().insert(base, layout);
        Ok(Address::pointer(base as u64))
    }

    unsafe fn free(&self, address: Address, _: MemoryKind) -> Result<(), Error> {
        let base = address.as_pointer().and_then(|word| usize::try_from(word).ok());
        let block = base.and_then(|base| Some((base, self.blocks().remove(&base)?)));
        let Some((base, layout)) = block else {
            return Err(Error::new(Status::NOT_OWNER, "free", "not an allocation of this plugin"));
        };
        // SAFETY: `allocate` got the block with this layout, and it was in the book until now.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(base), layout) };
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
        let word = address.as_pointer().and_then(|word| usize::try_from(word).ok());
        let blocks = self.blocks();
        let block = word.and_then(|word| Some((word, blocks.range(..=word).next_back()?)));
        Ok(match block {
            Some((word, (base, layout))) if word - base < layout.size() => PointerInfo {
                kind: MemoryKind::DEVICE,
                base: Address::pointer(*base as u64),
                size: layout.size() as u64,
                ..PointerInfo::default()
            },
            _ => PointerInfo::default(),
        })
    }
}

crossdock_sdk::export_plugin!(Tiny);
