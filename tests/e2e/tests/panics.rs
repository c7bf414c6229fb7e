//! Panics in hooks, in a deleter and in the log: each stays where it is, and the host lives.
#![expect(unsafe_code, reason = "hooks that touch raw memory are unsafe")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "panicking is what is tested, and how tests fail"
)]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock::{Hooks, Runtime, Table, Tensor};
use crossdock_e2e::every_hook::every_hook;
use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, DefaultStream, DeviceInfo, EventHandle, FillArgs,
    HostFunction, MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, ProbeInfo, Status,
    StreamHandle, StridedArgs,
};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{
    Adopt, AsyncMemory, Attributes, Error, Fill, Groups, Host, HostCalls, HostEvents, Map, Peer,
    Plugin, Pool, Register, Streams, Strided, Timing, Wrap, describe, table_of,
};

/// Offers every hook, does nothing in any, and panics in the one whose turn it is.
struct Panics;

/// The hooks that were called.
static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
static PANIC_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

fn turn<T>(hook: &'static str) -> Result<T, Error> {
    let call = {
        let mut calls = CALLS.lock().unwrap();
        calls.push(hook);
        calls.len() - 1
    };
    assert_ne!(call, PANIC_AT.load(Ordering::SeqCst), "this hook's turn");
    Err(Error::unsupported(hook))
}

impl Plugin for Panics {
    const DESCRIPTION: &'static str =
        describe!(name = "panics", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new()
        .streams()
        .wrap()
        .host_events()
        .host_calls()
        .timing()
        .strided()
        .fill()
        .register()
        .adopt()
        .map()
        .async_memory()
        .attributes()
        .pool()
        .peer();

    fn probe() -> Result<ProbeInfo, Error> {
        turn("probe")
    }
    fn open(host: Host) -> Result<Self, Error> {
        host.log(log::Level::Error, "panics", "the log of the program panics");
        Ok(Self)
    }
    fn device_count(&self) -> u32 {
        turn("device_count").unwrap_or(0)
    }
    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        turn("device_info")
    }
    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        turn("memory_info")
    }
    fn allocate(&self, _: AllocateArgs) -> Result<Address, Error> {
        turn("allocate")
    }
    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        turn("free")
    }
    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        turn("copy")
    }
    fn pointer_query(&self, _: Address) -> Result<PointerInfo, Error> {
        turn("pointer_query")
    }
}

impl Streams for Panics {
    fn stream_create(&self, _: u32) -> Result<StreamHandle, Error> {
        turn("stream_create")
    }
    fn stream_default(&self, _: u32, _: DefaultStream) -> Result<StreamHandle, Error> {
        turn("stream_default")
    }
    fn stream_native(&self, _: StreamHandle) -> Result<u64, Error> {
        turn("stream_native")
    }
    fn stream_destroy(&self, _: StreamHandle) -> Result<(), Error> {
        turn("stream_destroy")
    }
    fn stream_synchronize(&self, _: StreamHandle, _: u64) -> Result<(), Error> {
        turn("stream_synchronize")
    }
    fn stream_query(&self, _: StreamHandle) -> Result<(), Error> {
        turn("stream_query")
    }
    fn stream_wait_event(&self, _: StreamHandle, _: EventHandle) -> Result<(), Error> {
        turn("stream_wait_event")
    }
    fn event_create(&self, _: u32) -> Result<EventHandle, Error> {
        turn("event_create")
    }
    fn event_record(&self, _: EventHandle, _: StreamHandle) -> Result<(), Error> {
        turn("event_record")
    }
    fn event_query(&self, _: EventHandle) -> Result<(), Error> {
        turn("event_query")
    }
    fn event_synchronize(&self, _: EventHandle, _: u64) -> Result<(), Error> {
        turn("event_synchronize")
    }
    fn event_destroy(&self, _: EventHandle) -> Result<(), Error> {
        turn("event_destroy")
    }
}

impl Wrap for Panics {
    unsafe fn stream_wrap(&self, _: u32, _: u64) -> Result<StreamHandle, Error> {
        turn("stream_wrap")
    }
}

impl HostEvents for Panics {
    fn event_create_host(&self, _: u32) -> Result<EventHandle, Error> {
        turn("event_create_host")
    }
    fn event_complete(&self, _: EventHandle, _: Status) -> Result<(), Error> {
        turn("event_complete")
    }
}

impl HostCalls for Panics {
    unsafe fn stream_host_call(
        &self,
        _: StreamHandle,
        _: HostFunction,
        _: *mut c_void,
    ) -> Result<(), Error> {
        turn("stream_host_call")
    }
}

impl Timing for Panics {
    fn event_elapsed(&self, _: EventHandle, _: EventHandle) -> Result<u64, Error> {
        turn("event_elapsed")
    }
}

impl Strided for Panics {
    unsafe fn copy_strided(&self, _: StridedArgs, _: StreamHandle) -> Result<(), Error> {
        turn("copy_strided")
    }
}

impl Fill for Panics {
    unsafe fn fill(&self, _: FillArgs, _: StreamHandle) -> Result<(), Error> {
        turn("fill")
    }
}

impl Register for Panics {
    unsafe fn register_host(&self, _: u32, _: *mut c_void, _: u64) -> Result<(), Error> {
        turn("register_host")
    }
    fn unregister_host(&self, _: u32, _: *mut c_void) -> Result<(), Error> {
        turn("unregister_host")
    }
}

impl Adopt for Panics {
    unsafe fn adopt(
        &self,
        _: u32,
        _: Address,
        _: MemoryKind,
        _: u64,
        _: AdoptFlags,
    ) -> Result<Address, Error> {
        turn("adopt")
    }
    fn release_adopted(&self, _: u32, _: Address) -> Result<(), Error> {
        turn("release_adopted")
    }
}

impl Map for Panics {
    fn map(&self, _: u32, _: Address, _: u64) -> Result<*mut c_void, Error> {
        turn("map")
    }
    fn unmap(&self, _: u32, _: Address, _: *mut c_void) -> Result<(), Error> {
        turn("unmap")
    }
}

impl AsyncMemory for Panics {
    fn allocate_async(&self, _: StreamHandle, _: u64) -> Result<Address, Error> {
        turn("allocate_async")
    }
    unsafe fn free_async(&self, _: StreamHandle, _: Address) -> Result<(), Error> {
        turn("free_async")
    }
}

impl Attributes for Panics {
    fn device_attribute(&self, _: u32, _: u32) -> Result<u64, Error> {
        turn("device_attribute")
    }
}

impl Pool for Panics {
    fn memory_trim(&self, _: u32, _: u64) -> Result<(), Error> {
        turn("memory_trim")
    }
    fn memory_usage(&self, _: u32) -> Result<MemoryUsage, Error> {
        turn("memory_usage")
    }
    fn memory_reset_peaks(&self, _: u32) -> Result<(), Error> {
        turn("memory_reset_peaks")
    }
}

impl Peer for Panics {
    fn peer_can_access(&self, _: u32, _: u32) -> Result<bool, Error> {
        turn("peer_can_access")
    }
    fn peer_enable(&self, _: u32, _: u32) -> Result<(), Error> {
        turn("peer_enable")
    }
    fn peer_disable(&self, _: u32, _: u32) -> Result<(), Error> {
        turn("peer_disable")
    }
}

fn open() -> Hooks {
    // SAFETY: the sdk made this table; it is a constant of this program.
    let table = unsafe { Table::read(table_of::<Panics>()) }.unwrap();
    let mut hooks = Hooks::new("panics".to_owned(), table);
    hooks.open().unwrap();
    hooks
}

#[test]
fn a_panic_in_any_hook_quarantines_the_plugin_and_only_events_are_completed_after_it() {
    let every = every_hook(&open()).count();
    for at in 0..every {
        CALLS.lock().unwrap().clear();
        PANIC_AT.store(at, Ordering::SeqCst);
        let hooks = open();
        let answers = every_hook(&hooks);
        assert!(hooks.is_quarantined(), "{at}");
        let after = CALLS.lock().unwrap().split_off(at + 1);
        assert!(
            after.iter().all(|hook| *hook == "event_complete"),
            "{at}: {after:?}"
        );
        let mut fine = answers.other_than(&[Status::PANIC]);
        fine.retain(|answer| *answer != ("event_complete", Status::OK));
        assert_eq!(fine.len(), at, "{fine:?}");
    }
}

/// Host memory whose owner panics when it is released.
struct Rude(Vec<u8>);

impl AsRef<[u8]> for Rude {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Rude {
    fn drop(&mut self) {
        panic!("released rudely");
    }
}

#[test]
fn a_panic_in_a_deleter_does_not_reach_its_caller() {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[4]).unwrap();
    let owner = Box::new(Rude(vec![1; 4]));
    let tensor = Tensor::from_host_memory(&runtime, owner, 0, &layout).unwrap();
    let managed = tensor.export().unwrap().into_raw();
    drop(tensor);
    // SAFETY: a live managed tensor.
    let deleter = unsafe { managed.as_ref() }.deleter.unwrap();
    // SAFETY: called once, by its owner.
    unsafe { deleter(managed.as_ptr()) };
}

/// A log that panics.
struct Loud;

impl log::Log for Loud {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        assert_ne!(record.target(), "crossdock::plugin", "the log panics");
    }
    fn flush(&self) {}
}

#[test]
fn a_panic_in_the_log_does_not_reach_the_plugin_that_logs() {
    log::set_boxed_logger(Box::new(Loud)).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let hooks = open();
    assert!(!hooks.is_quarantined());
}
