//! What a host sees of a Rust plugin: its table's raw functions, for good and for hostile arguments.
#![expect(unsafe_code, reason = "hooks are called as a host calls them")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "every function of this file is part of a test"
)]

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use abi_stable::library::ROOT_MODULE_LOADER_NAME;
use crossdock_sdk::abi::{
    ABI_MAJOR, ABI_MINOR, Address, AllocateArgs, CopyArgs, DESCRIPTION_MAGIC, DefaultStream,
    DeviceInfo, EventHandle, MemoryInfo, MemoryKind, PluginHandle, PluginTable, PointerInfo,
    ProbeInfo, ROOT_SYMBOL, RawError, Side, Status, StreamHandle, Text, address_of, module_of,
};
use crossdock_sdk::plugin::{Error, Groups, Host, Plugin, Streams, TableOf, describe, table_of};

/// Answers what each test needs; its only state is how often it was dropped.
struct Probed;

static CLOSED: AtomicUsize = AtomicUsize::new(0);

impl Drop for Probed {
    fn drop(&mut self) {
        CLOSED.fetch_add(1, Ordering::SeqCst);
    }
}

impl Plugin for Probed {
    const DESCRIPTION: &'static str =
        describe!(name = "probed", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new().streams();

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(1, "7.0"))
    }

    fn open(_: Host) -> Result<Self, Error> {
        Ok(Self)
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        panic!("no device {device} today")
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        let error = Error::new(Status::VENDOR, "vendorMemory", "the vendor said no");
        Err(error.with_native(-5, "VENDOR_NO"))
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        Ok(Address::pointer(args.size))
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        Err(Error::unsupported("copy"))
    }

    fn pointer_query(&self, _: Address) -> Result<PointerInfo, Error> {
        Ok(PointerInfo::default())
    }

    fn at_exit(&self) {
        panic!("nobody may see this")
    }
}

impl Streams for Probed {
    fn stream_create(&self, _: u32) -> Result<StreamHandle, Error> {
        Ok(StreamHandle::from_raw(9))
    }

    fn stream_default(&self, _: u32, _: DefaultStream) -> Result<StreamHandle, Error> {
        Err(Error::unsupported("stream_default"))
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        Ok(stream.raw())
    }

    fn stream_destroy(&self, _: StreamHandle) -> Result<(), Error> {
        Ok(())
    }

    fn stream_synchronize(&self, _: StreamHandle, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn stream_query(&self, _: StreamHandle) -> Result<(), Error> {
        Err(Error::new(
            Status::NOT_READY,
            "stream_query",
            "work is pending",
        ))
    }

    fn stream_wait_event(&self, _: StreamHandle, _: EventHandle) -> Result<(), Error> {
        Ok(())
    }

    fn event_create(&self, _: u32) -> Result<EventHandle, Error> {
        Ok(EventHandle::from_raw(3))
    }

    fn event_record(&self, _: EventHandle, _: StreamHandle) -> Result<(), Error> {
        Ok(())
    }

    fn event_query(&self, _: EventHandle) -> Result<(), Error> {
        Ok(())
    }

    fn event_synchronize(&self, _: EventHandle, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn event_destroy(&self, _: EventHandle) -> Result<(), Error> {
        Ok(())
    }
}

/// The table as a host reads it.
fn table() -> PluginTable {
    // SAFETY: the table lives as long as the process.
    unsafe { table_of::<Probed>().read() }
}

/// A hook of the table, called with plain arguments.
macro_rules! hook {
    ($table:expr, $hook:ident($($argument:expr),* $(,)?)) => {{
        let hook = $table.$hook.unwrap();
        // SAFETY: every pointer here is NULL or a live local's, and every handle is live or none.
        unsafe { hook($($argument),*) }
    }};
}

fn open() -> PluginHandle {
    let mut handle = PluginHandle::NONE;
    let mut error = null_mut();
    let status = hook!(table(), open(null(), &raw mut handle, &raw mut error));
    assert_eq!(status, Status::OK);
    assert!(error.is_null());
    assert!(!handle.is_none());
    handle
}

fn text(text: Text) -> String {
    if text.len == 0 {
        return String::new();
    }
    let length = usize::try_from(text.len).unwrap();
    // SAFETY: the plugin promises `len` readable bytes until the error is freed.
    let bytes = unsafe { std::slice::from_raw_parts(text.ptr, length) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Reads an error object, then gives it back: (status, code, operation, name, message).
fn take(error: *mut RawError) -> (Status, i64, String, String, String) {
    assert!(!error.is_null());
    // SAFETY: a hook of this plugin made it and nobody freed it yet.
    let raw = unsafe { error.read() };
    let read = (
        raw.status,
        raw.native_code,
        text(raw.operation),
        text(raw.native_name),
        text(raw.message),
    );
    hook!(table(), error_free(error));
    read
}

#[test]
fn a_description_names_the_version_of_the_contract_that_the_plugin_was_built_for() {
    let version = env!("CARGO_PKG_VERSION");
    let who = format!("name=probed\0vendor=test\0version={version}");
    let rest = format!("abi={ABI_MAJOR}.{ABI_MINOR}\0devices=ext_dev\0\0");
    let expected = format!("{DESCRIPTION_MAGIC}{who}\0{rest}");
    assert_eq!(Probed::DESCRIPTION, expected);
}

#[test]
fn a_panic_becomes_a_status_with_its_message() {
    let plugin = open();
    let mut error = null_mut();
    let mut info = MaybeUninit::<DeviceInfo>::uninit();
    let out = info.as_mut_ptr();
    let status = hook!(table(), device_info(plugin, 4, out, &raw mut error));
    assert_eq!(status, Status::PANIC);
    let (status, _, _, _, message) = take(error);
    assert_eq!(status, Status::PANIC);
    assert!(message.contains("no device 4 today"), "{message}");
}

#[test]
fn a_panic_in_a_hook_without_a_status_is_stopped() {
    hook!(table(), at_exit(open()));
}

#[test]
fn an_error_carries_everything_that_the_plugin_said() {
    let mut error = null_mut();
    let mut info = MemoryInfo::default();
    let status = hook!(
        table(),
        memory_info(open(), 0, &raw mut info, &raw mut error)
    );
    assert_eq!(status, Status::VENDOR);
    let read = take(error);
    let texts = (read.2.as_str(), read.3.as_str(), read.4.as_str());
    assert_eq!((read.0, read.1), (Status::VENDOR, -5));
    assert_eq!(texts, ("vendorMemory", "VENDOR_NO", "the vendor said no"));
}

#[test]
fn null_out_is_invalid() {
    let plugin = open();
    let mut error = null_mut();
    let status = hook!(table(), device_count(plugin, null_mut(), &raw mut error));
    assert_eq!(status, Status::INVALID);
    assert!(take(error).4.contains("NULL"));
    let status = hook!(table(), probe(null_mut(), &raw mut error));
    assert_eq!(status, Status::INVALID);
    assert!(take(error).4.contains("NULL"));
    let status = hook!(table(), open(null(), null_mut(), &raw mut error));
    assert_eq!(status, Status::INVALID);
    assert!(take(error).4.contains("NULL"));
}

#[test]
fn null_arguments_are_invalid_and_leave_out_alone() {
    let plugin = open();
    let mut error = null_mut();
    let mut out = Address::pointer(77);
    let status = hook!(
        table(),
        allocate(plugin, null(), &raw mut out, &raw mut error)
    );
    assert_eq!(status, Status::INVALID);
    assert!(take(error).4.contains("NULL"));
    assert_eq!(out, Address::pointer(77));
    let status = hook!(
        table(),
        copy(plugin, null(), StreamHandle::NONE, &raw mut error)
    );
    assert_eq!(status, Status::INVALID);
    take(error);
    let status = hook!(
        table(),
        free(plugin, null(), MemoryKind::DEVICE, &raw mut error)
    );
    assert_eq!(status, Status::INVALID);
    take(error);
}

#[test]
fn no_plugin_handle_is_invalid() {
    let mut count = 0;
    let mut error = null_mut();
    let none = PluginHandle::NONE;
    let status = hook!(table(), device_count(none, &raw mut count, &raw mut error));
    assert_eq!((status, count), (Status::INVALID, 0));
    take(error);
    let status = hook!(table(), close(none, &raw mut error));
    assert_eq!(status, Status::INVALID);
    take(error);
    hook!(table(), at_fork_child(none));
}

#[test]
fn a_null_error_pointer_and_a_null_error_are_borne() {
    let plugin = open();
    let mut info = MemoryInfo::default();
    let status = hook!(table(), memory_info(plugin, 0, &raw mut info, null_mut()));
    assert_eq!(status, Status::VENDOR);
    let status = hook!(table(), device_count(plugin, null_mut(), null_mut()));
    assert_eq!(status, Status::INVALID);
    hook!(table(), error_free(null_mut()));
}

#[test]
fn an_answer_is_written_and_the_error_place_left_alone() {
    let plugin = open();
    let args = AllocateArgs {
        size: 640,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    let mut error = null_mut();
    let mut out = Address::default();
    let status = hook!(
        table(),
        allocate(plugin, &raw const args, &raw mut out, &raw mut error)
    );
    assert_eq!((status, out), (Status::OK, Address::pointer(640)));
    assert!(error.is_null());
}

#[test]
fn unsupported_and_not_ready_cross_as_they_are() {
    let plugin = open();
    let args = CopyArgs {
        dst: Side::default(),
        src: Side::default(),
        bytes: 1,
    };
    let mut error = null_mut();
    let none = StreamHandle::NONE;
    let status = hook!(table(), copy(plugin, &raw const args, none, &raw mut error));
    assert_eq!(status, Status::UNSUPPORTED);
    assert_eq!(take(error).2, "copy");
    // SAFETY: the group is there, as `only_the_named_groups_are_there` says.
    let streams = unsafe { table().streams.as_ptr().read() };
    let status = hook!(streams, stream_query(plugin, none, null_mut()));
    assert_eq!(status, Status::NOT_READY);
    let mut stream = none;
    let status = hook!(
        streams,
        stream_create(plugin, 0, &raw mut stream, null_mut())
    );
    assert_eq!((status, stream.raw()), (Status::OK, 9));
}

#[test]
fn a_failure_never_reads_as_success() {
    let error = Error::new(Status::OK, "copy", "a plugin that contradicts itself");
    assert_eq!(error.status(), Status::ABI);
}

#[test]
fn close_drops_the_plugin_once() {
    let plugin = open();
    let before = CLOSED.load(Ordering::SeqCst);
    assert_eq!(hook!(table(), close(plugin, null_mut())), Status::OK);
    assert_eq!(CLOSED.load(Ordering::SeqCst), before + 1);
}

#[test]
fn only_the_named_groups_are_there() {
    let table = table();
    let there = [
        ("streams", !table.streams.is_null()),
        ("wrap", !table.wrap.is_null()),
        ("host_events", !table.host_events.is_null()),
        ("host_calls", !table.host_calls.is_null()),
        ("timing", !table.timing.is_null()),
        ("strided", !table.strided.is_null()),
        ("fill", !table.fill.is_null()),
        ("register", !table.register.is_null()),
        ("adopt", !table.adopt.is_null()),
        ("map", !table.map.is_null()),
        ("async_memory", !table.async_memory.is_null()),
        ("attributes", !table.attributes.is_null()),
        ("pool", !table.pool.is_null()),
        ("peer", !table.peer.is_null()),
    ];
    let there: Vec<_> = there.iter().filter(|group| group.1).collect();
    assert_eq!(there, [&("streams", true)]);
}

#[test]
fn the_table_says_what_it_is() {
    let table = table();
    assert_eq!(table.struct_size as usize, size_of::<PluginTable>());
    assert_eq!((table.abi_major, table.abi_minor), (ABI_MAJOR, ABI_MINOR));
    let description = Text {
        ptr: table.description.as_ptr(),
        len: 12,
    };
    assert_eq!(text(description), format!("{DESCRIPTION_MAGIC}n"));
    assert_eq!(
        address_of(module_of::<TableOf<Probed>>()),
        table_of::<Probed>()
    );
}

#[test]
fn the_root_symbol_is_the_one_that_abi_stable_looks_for() {
    assert_eq!(ROOT_SYMBOL, ROOT_MODULE_LOADER_NAME);
}

#[test]
fn a_poll_that_says_not_yet_makes_no_error_object() {
    let plugin = open();
    // SAFETY: the group is a constant of this program.
    let streams = unsafe { table().streams.as_ptr().read() };
    let mut error = null_mut();
    let stream = StreamHandle::from_raw(9);
    let status = hook!(streams, stream_query(plugin, stream, &raw mut error));
    assert_eq!(status, Status::NOT_READY);
    assert!(error.is_null());
    assert_eq!(hook!(table(), close(plugin, null_mut())), Status::OK);
}
