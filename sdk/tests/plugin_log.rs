//! What a plugin file logs reaches the host's log, from `open` on, and nothing else is made.
#![expect(unsafe_code, reason = "plays the host of a plugin file")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::ffi::c_void;
use std::fmt;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, DeviceInfo, HostServices, MemoryInfo, MemoryKind,
    PluginHandle, PointerInfo, ProbeInfo, Status, StreamHandle, Text, address_of, module_of,
};
use crossdock_sdk::plugin::{Error, FileTableOf, Groups, Host, Plugin, describe};

/// A plugin that logs when it is opened.
struct Talks;

/// How often a text was made of a [`Costly`].
static MADE: AtomicU32 = AtomicU32::new(0);

struct Costly;

impl fmt::Display for Costly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        MADE.fetch_add(1, SeqCst);
        f.write_str("costly")
    }
}

impl Plugin for Talks {
    const DESCRIPTION: &'static str =
        describe!(name = "talks", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new();

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(0, ""))
    }

    fn open(_: Host) -> Result<Self, Error> {
        log::info!(target: "talks::open", "opened {}", 7);
        log::debug!(target: "talks::open", "more than the host wants: {Costly}");
        Ok(Self)
    }

    fn device_count(&self) -> u32 {
        0
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        Err(Error::unsupported("device_info"))
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Err(Error::unsupported("memory_info"))
    }

    fn allocate(&self, _: AllocateArgs) -> Result<Address, Error> {
        Err(Error::unsupported("allocate"))
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        Err(Error::unsupported("free"))
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        Err(Error::unsupported("copy"))
    }

    fn pointer_query(&self, _: Address) -> Result<PointerInfo, Error> {
        Ok(PointerInfo::default())
    }
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn keep(context: *mut c_void, level: u32, target: Text, message: Text) {
    let read = |text: Text| {
        let length = usize::try_from(text.len).unwrap();
        // SAFETY: the plugin lends the text for the call.
        let bytes = unsafe { std::slice::from_raw_parts(text.ptr, length) };
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let line = format!(
        "{} {level} {}: {}",
        context.addr(),
        read(target),
        read(message)
    );
    LINES.lock().unwrap().push(line);
}

#[test]
fn a_plugin_file_makes_and_sends_what_the_host_wants_at_that_time() {
    // Services live until the process ends.
    let services: *mut HostServices = Box::leak(Box::new(HostServices {
        struct_size: u32::try_from(size_of::<HostServices>()).unwrap(),
        log_level: 3,
        context: without_provenance_mut(42),
        log: Some(keep),
    }));
    // SAFETY: a field of the struct; no reference to it exists.
    let level = unsafe { &raw mut (*services).log_level };
    // SAFETY: aligned, and nobody writes it but by this.
    let level = unsafe { AtomicU32::from_ptr(level) };
    // SAFETY: the table of this program.
    let table = unsafe { address_of(module_of::<FileTableOf<Talks>>()).read() };
    let mut handle = PluginHandle::NONE;
    // SAFETY: services that outlive the test, and a place for the handle.
    let status = unsafe { table.open.unwrap()(services, &raw mut handle, null_mut()) };
    assert_eq!(status, Status::OK);
    assert_eq!(*LINES.lock().unwrap(), ["42 3 talks::open: opened 7"]);
    assert_eq!(MADE.load(SeqCst), 0);
    level.store(4, SeqCst);
    log::debug!(target: "talks", "{Costly}");
    level.store(2, SeqCst);
    log::info!(target: "talks", "{Costly}");
    log::debug!(target: "talks", "{Costly}");
    log::warn!(target: "talks", "{Costly}");
    let told = ["42 4 talks: costly", "42 2 talks: costly"];
    assert_eq!(LINES.lock().unwrap().split_off(1), told);
    assert_eq!(MADE.load(SeqCst), 2);
    // SAFETY: opened above, and used by nobody else.
    let status = unsafe { table.close.unwrap()(handle, null_mut()) };
    assert_eq!(status, Status::OK);
}
