//! The plugin as the host sees it: one device, `cpu:0`.
#![expect(
    unsafe_code,
    reason = "hooks that touch raw memory are unsafe to implement"
)]

use core::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, DeviceInfo, EventHandle, FillArgs, MemoryInfo,
    MemoryKind, MemoryUsage, PluginTable, PointerInfo, ProbeInfo, QueryCost, Status, StreamHandle,
    StridedArgs,
};
use crossdock_sdk::handles::Handles;
use crossdock_sdk::log;
use crossdock_sdk::plugin::{
    Adopt, AsyncMemory, Error, Fill, Groups, Host, Plugin, Pool, Register, Strided, describe,
    table_of,
};

use crate::device::{self, Device, check_index};
use crate::event::Event;
use crate::stream::Stream;
use crate::threads::Threads;
use crate::work::Work;

/// The CPU plugin.
#[derive(Debug)]
pub struct Cpu {
    pub(crate) device: Arc<Device>,
    pub(crate) streams: Handles<StreamHandle, Stream>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) events: Handles<EventHandle, Event>,
    /// The stream that is nobody's to destroy.
    pub(crate) default_stream: StreamHandle,
}

/// The plugin's table, for a host that links it in; a plugin file exports [`Cpu`] instead.
#[must_use]
pub fn table() -> NonNull<PluginTable> {
    table_of::<Cpu>()
}

impl Plugin for Cpu {
    const DESCRIPTION: &'static str =
        describe!(name = "cpu", vendor = "Crossdock", devices = "cpu");
    const GROUPS: Groups<Self> = Groups::new()
        .streams()
        .host_events()
        .host_calls()
        .timing()
        .strided()
        .fill()
        .register()
        .adopt()
        .async_memory()
        .pool();
    const QUERY_COST: QueryCost = QueryCost::TABLE;

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(1, ""))
    }

    fn open(_: Host) -> Result<Self, Error> {
        let (streams, threads) = (Handles::new(), Threads::new());
        let default_stream = streams.insert("open", Stream::new(&threads))?;
        let device = Arc::new(Device::new());
        Ok(Self {
            device,
            streams,
            threads,
            events: Handles::new(),
            default_stream,
        })
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        check_index("device_info", device)?;
        Ok(device::info())
    }

    fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error> {
        check_index("memory_info", device)?;
        Ok(device::memory_info())
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        self.device.allocate(args)
    }

    unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        self.device.free(address, Some(kind))
    }

    unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error> {
        let stream = self.work_stream("copy", stream)?;
        let work = Work::copy(&self.device, &args)?;
        // SAFETY: the caller keeps both sides valid until the copy is done, and apart.
        unsafe { work.start("copy", stream.as_deref()) }
    }

    #[inline(always)]
    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        self.device.query(address)
    }

    fn retire(&self, deadline_ns: u64) -> Result<(), Error> {
        self.device.check_process("retire")?;
        self.device.retire();
        self.drain(deadline_ns)
    }

    fn at_fork_child(&self) {
        self.device.at_fork_child();
    }

    fn at_exit(&self) {
        if self.device.check_process("at_exit").is_ok() {
            // What is queued besides is done: a thread that waits for it may be waited for in turn.
            self.device.exit();
            drop(self.streams.drain());
            self.threads.close();
        }
    }
}

impl Strided for Cpu {
    unsafe fn copy_strided(&self, args: StridedArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "copy_strided";
        let stream = self.work_stream(operation, stream)?;
        // SAFETY: the caller vouches for the arrays.
        let work = unsafe { Work::strided(&self.device, &args)? };
        // SAFETY: the caller keeps both sides valid until the copy is done, and apart.
        unsafe { work.start(operation, stream.as_deref()) }
    }
}

impl Fill for Cpu {
    unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error> {
        let stream = self.work_stream("fill", stream)?;
        let work = Work::fill(&self.device, &args)?;
        // SAFETY: the caller keeps the range valid until the fill is done.
        unsafe { work.start("fill", stream.as_deref()) }
    }
}

impl Register for Cpu {
    unsafe fn register_host(
        &self,
        device: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), Error> {
        check_index("register_host", device)?;
        if pointer.is_null() {
            return Err(Error::new(Status::INVALID, "register_host", "no address"));
        }
        self.device.register(pointer.expose_provenance(), size)
    }

    fn unregister_host(&self, device: u32, pointer: *mut c_void) -> Result<(), Error> {
        check_index("unregister_host", device)?;
        self.device.unregister(pointer.addr())
    }
}

impl Adopt for Cpu {
    unsafe fn adopt(
        &self,
        device: u32,
        foreign: Address,
        kind: MemoryKind,
        size: u64,
        // Its copies are ordinary stores, and nobody asks for one into such memory.
        _flags: AdoptFlags,
    ) -> Result<Address, Error> {
        check_index("adopt", device)?;
        if !matches!(kind, MemoryKind::HOST | MemoryKind::PINNED) {
            return Err(Error::unsupported("adopt"));
        }
        self.device.adopt(foreign, size)
    }

    fn release_adopted(&self, device: u32, adopted: Address) -> Result<(), Error> {
        check_index("release_adopted", device)?;
        self.device.release(adopted)
    }
}

impl AsyncMemory for Cpu {
    fn allocate_async(&self, stream: StreamHandle, size: u64) -> Result<Address, Error> {
        self.stream("allocate_async", stream)?;
        let kind = MemoryKind::DEVICE;
        self.device.allocate(AllocateArgs {
            size,
            alignment: 256,
            kind,
            device: 0,
        })
    }

    unsafe fn free_async(&self, stream: StreamHandle, address: Address) -> Result<(), Error> {
        let operation = "free_async";
        let stream = self.stream(operation, stream)?;
        let known = self.device.query(address)?;
        if known.base != address || known.flags.contains(FOREIGN) {
            return Err(Error::new(
                Status::NOT_OWNER,
                operation,
                "this was not allocated here",
            ));
        }
        let device = Arc::clone(&self.device);
        let freed = stream.submit_short(move || {
            device
                .free(address, None)
                .map_err(|error| crate::event::Failure::new(error.status(), error.message()))
        });
        crate::convert::outcome(operation, freed)
    }
}

impl Pool for Cpu {
    fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error> {
        let operation = "memory_trim";
        check_index(operation, device)?;
        self.device.check_process(operation)?;
        let keep = usize::try_from(keep_bytes).unwrap_or(usize::MAX);
        let given_back = self.device.cache().trim(keep);
        log::debug!("{given_back} bytes of freed memory were given back");
        Ok(())
    }

    fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error> {
        let operation = "memory_usage";
        check_index(operation, device)?;
        self.device.check_process(operation)?;
        let usage = self.device.cache().usage();
        Ok(MemoryUsage {
            reserved: usage.reserved as u64,
            used: usage.used as u64,
            peak_reserved: usage.peak_reserved as u64,
            peak_used: usage.peak_used as u64,
        })
    }

    fn memory_reset_peaks(&self, device: u32) -> Result<(), Error> {
        let operation = "memory_reset_peaks";
        check_index(operation, device)?;
        self.device.check_process(operation)?;
        self.device.cache().reset_peaks();
        Ok(())
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        // In the child of a fork a lock may be held for ever, and the threads are not there.
        if self.device.check_process("close").is_ok() {
            // Streams that wait for the host would never end.
            for event in self.events.all() {
                event.abandon();
            }
            drop(self.streams.drain());
            self.threads.close();
            // Work may use memory of the host, which is freed once this returns.
            self.threads.join();
        }
    }
}

const FOREIGN: crossdock_sdk::abi::PointerFlags = crossdock_sdk::abi::PointerFlags::FOREIGN;
