//! A whole plugin for Crossdock: blocks of host memory as one device, with streams that are threads.
//!
//! It depends on the sdk alone and uses what that has for plugins: the table of handles, the table of
//! addresses, waits with a deadline, and host functions. `cargo build`, then
//! `crossdock conform target/debug/libexample_plugin.so`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `lib.rs` | the life of the plugin, and what its device can do |
//! | `memory.rs` | allocations, copies, and who owns an address |
//! | `ordering.rs` | the hooks for streams, events and host functions |
//! | `queue.rs` | a stream's work and the thread that does it |

mod memory;
mod ordering;
mod queue;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossdock_sdk::abi::{
    Address, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, EventHandle, MemoryInfo, MemoryKind,
    PointerInfo, ProbeInfo, QueryCost, Status, StreamHandle,
};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::handles::Handles;
use crossdock_sdk::plugin::{Error, Groups, Host, Level, Plugin, describe};

use memory::Memory;
use queue::{Event, Stream, lock};

/// The plugin. All hooks may be called from any thread, so what changes lies behind locks or atomics.
struct Example {
    host: Host,
    memory: Memory,
    streams: Handles<StreamHandle, Stream>,
    events: Handles<EventHandle, Event>,
    /// The threads of the streams, destroyed ones too: those go on until their work is over.
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_retired: AtomicBool,
}

impl Plugin for Example {
    const DESCRIPTION: &'static str = describe!(
        // Searches take the file as `libcrossdock_plugin_NAME.so`.
        name = "example",
        vendor = "Example",
        devices = "ext_dev"
    );
    const GROUPS: Groups<Self> = Groups::new().streams().host_events().host_calls();
    // Who owns an address is answered from a table, and no driver is asked.
    const QUERY_COST: QueryCost = QueryCost::TABLE;

    fn probe() -> Result<ProbeInfo, Error> {
        // A plugin of a vendor looks for the vendor's library here, and starts nothing.
        Ok(ProbeInfo::ready(1, ""))
    }

    fn open(host: Host) -> Result<Self, Error> {
        host.log(Level::Debug, "example", "open");
        Ok(Self {
            host,
            memory: Memory::default(),
            streams: Handles::new(),
            events: Handles::new(),
            threads: Mutex::default(),
            is_retired: AtomicBool::new(false),
        })
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        check_index("device_info", device)?;
        let mut info = DeviceInfo::new(DeviceType::EXT_DEV, device, "Blocks of host memory");
        info.total_memory = TOTAL_BYTES;
        info.capabilities = [
            Capabilities::HOST_ACCESSIBLE,
            Capabilities::ASYNC_COPY,
            Capabilities::PINNED,
            Capabilities::HOST_EVENTS,
        ]
        .into_iter()
        .collect();
        Ok(info)
    }

    fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error> {
        check_index("memory_info", device)?;
        Ok(MemoryInfo {
            // Not known: the host's memory is everybody's.
            free: u64::MAX,
            total: TOTAL_BYTES,
        })
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        self.check_open("allocate")?;
        check_index("allocate", args.device)?;
        self.memory.allocate(&args)
    }

    unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        self.memory.free(address, kind)
    }

    unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "copy";
        self.check_open(operation)?;
        // SAFETY: the caller keeps host memory valid until the copy is done.
        let copy = unsafe { self.memory.copy(&args) }?;
        if stream.is_none() {
            copy.run();
            return Ok(());
        }
        self.streams
            .find(operation, stream)?
            .submit(operation, move || copy.run())
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        Ok(self.memory.query(address))
    }

    fn retire(&self, deadline_ns: u64) -> Result<(), Error> {
        self.is_retired.store(true, Ordering::Release);
        self.drain(deadline_ns)
    }

    fn at_exit(&self) {
        // The process ends its threads: they take nothing more up, and nobody waits for what they do now.
        for stream in self.streams.all() {
            stream.stop();
        }
    }
}

/// What `close` does. No hook runs any more, and none will.
impl Drop for Example {
    fn drop(&mut self) {
        // Streams that wait for events of the host's would never end.
        for event in self.events.drain() {
            event.abandon();
        }
        // A stream that is dropped does what was submitted to it.
        drop(self.streams.drain());
        // Work may use memory of the host, which is freed once this returns.
        for thread in lock(&self.threads).drain(..) {
            let _ended = thread.join();
        }
        self.host.log(Level::Debug, "example", "closed");
    }
}

impl Example {
    /// Fails once no new work is taken.
    fn check_open(&self, operation: &'static str) -> Result<(), Error> {
        if self.is_retired.load(Ordering::Acquire) {
            return Err(Error::new(
                Status::RETIRED,
                operation,
                "the plugin was retired",
            ));
        }
        Ok(())
    }
}

/// There is one device.
fn check_index(operation: &'static str, device: u32) -> Result<(), Error> {
    if device == 0 {
        return Ok(());
    }
    Err(Error::new(
        Status::INVALID,
        operation,
        format!("no device {device}: there is one"),
    ))
}

/// What the device says it has.
const TOTAL_BYTES: u64 = 1 << 30;

crossdock_sdk::export_plugin!(Example);
