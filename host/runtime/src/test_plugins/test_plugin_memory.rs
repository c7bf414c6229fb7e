//! A plugin for tests: memory that no other plugin reaches, and a count of what is asked of it.
#![expect(unsafe_code, reason = "a plugin's hooks touch raw memory")]
#![expect(clippy::cast_possible_truncation, reason = "addresses are 64 bits")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossdock_sdk::abi::{
    Address, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, MemoryInfo, MemoryKind, PointerInfo,
    ProbeInfo, Status, StreamHandle,
};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::{Error, Groups, Host, Register, describe};

use crate::devices::device::Device;
use crate::devices::shared::Shared;
use crate::plugins::plugin::Plugin;
use crate::test_plugins::test_plugin;

/// The plugin with this number; each has its own memory and its own counts.
pub(crate) struct Far<const N: usize>;

/// What a plugin was asked.
pub(crate) struct Asked {
    pub(crate) copies: AtomicU64,
    /// The copy with this number fails; 0: none.
    pub(crate) failing: AtomicU64,
    /// Whether the device is lost by that.
    pub(crate) loses: AtomicBool,
    /// Each copy takes so many microseconds for each KiB, on top of what it takes.
    pub(crate) slowness: AtomicU64,
    /// The first copy takes so many microseconds, on top of what it takes.
    pub(crate) first: AtomicU64,
    pub(crate) live: AtomicU64,
    pub(crate) locked: AtomicU64,
    /// Host addresses that copies began at, in pages.
    pub(crate) host_pages: Mutex<BTreeSet<u64>>,
    /// The longest copy.
    pub(crate) longest: AtomicU64,
}

impl Asked {
    const fn new() -> Self {
        Self {
            copies: AtomicU64::new(0),
            failing: AtomicU64::new(0),
            loses: AtomicBool::new(false),
            slowness: AtomicU64::new(0),
            first: AtomicU64::new(0),
            live: AtomicU64::new(0),
            locked: AtomicU64::new(0),
            host_pages: Mutex::new(BTreeSet::new()),
            longest: AtomicU64::new(0),
        }
    }
}

static ASKED: [Asked; 32] = [const { Asked::new() }; 32];

/// What plugin `N` was asked.
pub(crate) fn asked<const N: usize>() -> &'static Asked {
    &ASKED[N]
}

/// Plugin `N`, open.
pub(crate) fn plugin<const N: usize>() -> Arc<Plugin> {
    test_plugin::start::<Far<N>>(format!("far{N}"))
}

/// The one device of plugin `N`.
pub(crate) fn device<const N: usize>(shared: &Arc<Shared>) -> Device {
    let plugin = plugin::<N>();
    let info = plugin.hooks().device_info(0).unwrap();
    let id = DeviceType::EXT_DEV.device(i32::try_from(N).unwrap());
    Device::new(&plugin, 0, id, info, shared)
}

impl<const N: usize> crossdock_sdk::plugin::Plugin for Far<N> {
    const DESCRIPTION: &'static str = describe!(name = "far", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new().register();

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(1, "1.0"))
    }

    fn open(_: Host) -> Result<Self, Error> {
        Ok(Self)
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        let mut info = test_plugin::device_info();
        info.capabilities = Capabilities::REGISTER.with(Capabilities::PINNED);
        Ok(info)
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Ok(MemoryInfo::default())
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let base = layout(args.size + HEAD);
        // SAFETY: the size is not 0.
        let base = unsafe { alloc_zeroed(base) };
        // SAFETY: `HEAD` bytes were allocated.
        unsafe { base.cast::<[u8; 8]>().write(args.size.to_ne_bytes()) };
        ASKED[N].live.fetch_add(1, SeqCst);
        Ok(Address::pointer(base.expose_provenance() as u64 + HEAD))
    }

    unsafe fn free(&self, address: Address, _: MemoryKind) -> Result<(), Error> {
        let base = pointer(address.word - HEAD);
        // SAFETY: `allocate` wrote the size there.
        let size = u64::from_ne_bytes(unsafe { base.cast::<[u8; 8]>().read() });
        // SAFETY: `allocate` made it with this layout.
        unsafe { dealloc(base, layout(size + HEAD)) };
        ASKED[N].live.fetch_sub(1, SeqCst);
        Ok(())
    }

    unsafe fn copy(&self, args: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        let asked = &ASKED[N];
        for side in [args.dst, args.src] {
            if side.kind == MemoryKind::HOST {
                asked
                    .host_pages
                    .lock()
                    .unwrap()
                    .insert(side.address.word >> 12);
            }
        }
        asked.longest.fetch_max(args.bytes, SeqCst);
        let number = asked.copies.fetch_add(1, SeqCst) + 1;
        if number == asked.failing.load(SeqCst) {
            let status = match asked.loses.load(SeqCst) {
                true => Status::DEVICE_LOST,
                false => Status::VENDOR,
            };
            return Err(Error::new(status, "copy", "this one was to fail"));
        }
        let once = if number == 1 {
            asked.first.load(SeqCst)
        } else {
            0
        };
        let micros = once + asked.slowness.load(SeqCst) * args.bytes / 1024;
        let until = Instant::now() + Duration::from_micros(micros);
        let (dst, src) = (args.dst.address, args.src.address);
        let (dst, src) = (dst.as_pointer().unwrap(), src.as_pointer().unwrap());
        // SAFETY: the caller vouches for both sides.
        unsafe { pointer(dst).copy_from_nonoverlapping(pointer(src), args.bytes as usize) };
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn pointer_query(&self, _: Address) -> Result<PointerInfo, Error> {
        Ok(PointerInfo::default())
    }
}

impl<const N: usize> Register for Far<N> {
    unsafe fn register_host(&self, _: u32, _: *mut c_void, _: u64) -> Result<(), Error> {
        ASKED[N].locked.fetch_add(1, SeqCst);
        Ok(())
    }

    fn unregister_host(&self, _: u32, _: *mut c_void) -> Result<(), Error> {
        ASKED[N].locked.fetch_sub(1, SeqCst);
        Ok(())
    }
}

const HEAD: u64 = 256;

fn layout(bytes: u64) -> Layout {
    Layout::from_size_align(bytes as usize, 256).unwrap()
}

fn pointer(word: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(word as usize)
}
