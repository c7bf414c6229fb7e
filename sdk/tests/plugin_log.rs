//! What a plugin file logs reaches the host's log, from `open` on.
#![expect(unsafe_code, reason = "plays the host of a plugin file")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Mutex;

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, DeviceInfo, HostServices, MemoryInfo, MemoryKind,
    PluginHandle, PointerInfo, ProbeInfo, Status, StreamHandle, Text, address_of, module_of,
};
use crossdock_sdk::plugin::{Error, FileTableOf, Groups, Host, Plugin, describe};

/// A plugin that logs when it is opened.
struct Talks;

impl Plugin for Talks {
    const DESCRIPTION: &'static str =
        describe!(name = "talks", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new();

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(0, ""))
    }

    fn open(_: Host) -> Result<Self, Error> {
        log::info!(target: "talks::open", "opened {}", 7);
        log::debug!(target: "talks::open", "more than the host wants");
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
fn a_plugin_file_logs_to_its_host_what_the_host_wants() {
    let services = HostServices {
        struct_size: u32::try_from(size_of::<HostServices>()).unwrap(),
        log_level: 3,
        context: without_provenance_mut(42),
        log: Some(keep),
    };
    // SAFETY: the table of this program.
    let table = unsafe { address_of(module_of::<FileTableOf<Talks>>()).read() };
    let mut handle = PluginHandle::NONE;
    // SAFETY: services that outlive the test, and a place for the handle.
    let status = unsafe { table.open.unwrap()(&raw const services, &raw mut handle, null_mut()) };
    assert_eq!(status, Status::OK);
    assert_eq!(*LINES.lock().unwrap(), ["42 3 talks::open: opened 7"]);
    // SAFETY: opened above, and used by nobody else.
    let status = unsafe { table.close.unwrap()(handle, null_mut()) };
    assert_eq!(status, Status::OK);
}
