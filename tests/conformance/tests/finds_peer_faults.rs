//! The suite on plugins whose links between devices have one fault each.
#![expect(
    unsafe_code,
    reason = "a faulty hook calls the hook that it stands for"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossdock::{Hooks, Table};
use crossdock_conformance::{Level, Report, Subject, run};
use crossdock_plugin_asynchronous::table;
use crossdock_sdk::abi::{
    CopyArgs, MemoryKind, PeerHooks, PluginHandle, PluginTable, RawError, StaticPtr, Status,
    StreamHandle, StreamHooks,
};

type ErrorOut = *mut *mut RawError;

/// The table of the plugin whose links are sound.
fn sound() -> PluginTable {
    // SAFETY: the table is a constant of this program.
    unsafe { table().read() }
}

fn sound_links() -> PeerHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().peer.as_ptr().read() }
}

fn sound_streams() -> StreamHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().streams.as_ptr().read() }
}

/// Leaks a table or a group of hooks, as a plugin's are for ever.
fn leaked<T: 'static>(hooks: T) -> StaticPtr<T> {
    StaticPtr::new(Box::leak(Box::new(hooks)))
}

/// Runs one case on a table with a fault.
fn report_of_case(case: &str, change: impl FnOnce(&mut PluginTable)) -> Report {
    let mut faulty = sound();
    change(&mut faulty);
    let faulty = NonNull::new(leaked(faulty).as_ptr().cast_mut()).unwrap();
    // SAFETY: a whole table, which is leaked; its groups are constants or leaked too.
    let table = unsafe { Table::read(faulty) }.unwrap();
    let mut hooks = Hooks::new("faulty".to_owned(), table);
    hooks.open().unwrap();
    let subject = Subject::new(&hooks, 0).unwrap();
    let report = run(&subject, Level::Full, Some(case));
    hooks.close().unwrap();
    assert_eq!(report.cases.len(), 1, "{report}");
    report
}

/// Demands that a case finds a fault, and passes without it.
fn is_found_by(case: &str, change: impl FnOnce(&mut PluginTable)) {
    let sound = report_of_case(case, |_| {});
    assert!(sound.passed(), "{sound}");
    let report = report_of_case(case, change);
    assert!(!report.passed(), "{report}");
    assert!(
        report.failures().any(|failure| failure.name == case),
        "{report}"
    );
}

/// The same where the fault is one of the group.
fn in_a_link_is_found_by(case: &str, fault: impl FnOnce(&mut PeerHooks)) {
    is_found_by(case, |table| {
        let mut links = sound_links();
        fault(&mut links);
        table.peer = leaked(links);
    });
}

/// Makes a hook that says what each device can reach.
macro_rules! says {
    ($name:ident: $can:expr) => {
        unsafe extern "C" fn $name(
            _: PluginHandle,
            device: u32,
            peer: u32,
            out: *mut u32,
            _: ErrorOut,
        ) -> Status {
            let can: fn(u32, u32) -> bool = $can;
            // SAFETY: the caller's room for the answer.
            unsafe { out.write(u32::from(can(device, peer))) };
            Status::OK
        }
    };
}

#[test]
fn a_link_that_is_told_otherwise_each_time_is_found() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    says!(alternates: |device, peer| {
        device != peer && ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    });
    in_a_link_is_found_by("links_are_told_the_same_each_time", |links| {
        links.peer_can_access = Some(alternates);
    });
}

#[test]
fn a_device_with_a_link_to_itself_is_found() {
    says!(all: |_, _| true);
    in_a_link_is_found_by("links_are_told_the_same_each_time", |links| {
        links.peer_can_access = Some(all);
    });
}

unsafe extern "C" fn is_fine(_: PluginHandle, _: u32, _: u32, _: ErrorOut) -> Status {
    Status::OK
}

#[test]
fn a_link_that_is_not_there_and_is_enabled_is_found() {
    in_a_link_is_found_by("a_link_that_is_not_there_is_not_enabled", |links| {
        links.peer_enable = Some(is_fine);
    });
}

#[test]
fn a_link_that_cannot_be_enabled_twice_is_found() {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn once(
        plugin: PluginHandle,
        device: u32,
        peer: u32,
        error: ErrorOut,
    ) -> Status {
        if IS_ON.swap(true, Ordering::Relaxed) {
            return Status::VENDOR;
        }
        // SAFETY: the caller's arguments.
        unsafe { sound_links().peer_enable.unwrap()(plugin, device, peer, error) }
    }
    let case = "a_link_is_enabled_and_disabled_as_often_as_one_likes";
    in_a_link_is_found_by(case, |links| links.peer_enable = Some(once));
}

#[test]
fn a_link_that_is_not_enabled_and_cannot_be_disabled_is_found() {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn on(_: PluginHandle, _: u32, _: u32, _: ErrorOut) -> Status {
        IS_ON.store(true, Ordering::Relaxed);
        Status::OK
    }
    unsafe extern "C" fn off(_: PluginHandle, _: u32, _: u32, _: ErrorOut) -> Status {
        match IS_ON.swap(false, Ordering::Relaxed) {
            true => Status::OK,
            false => Status::VENDOR,
        }
    }
    let case = "a_link_is_enabled_and_disabled_as_often_as_one_likes";
    in_a_link_is_found_by(case, |links| {
        links.peer_enable = Some(on);
        links.peer_disable = Some(off);
    });
}

/// How many links of the plugin below are enabled.
static LINKS: AtomicU32 = AtomicU32::new(0);

/// Nothing arrives from another device while a link is enabled.
unsafe extern "C" fn drops(
    plugin: PluginHandle,
    args: *const CopyArgs,
    stream: StreamHandle,
    error: ErrorOut,
) -> Status {
    // SAFETY: the caller's arguments.
    let CopyArgs { dst, src, .. } = unsafe { args.read() };
    let are_devices = [dst.kind, src.kind] == [MemoryKind::DEVICE; 2];
    if are_devices && dst.device != src.device && LINKS.load(Ordering::Relaxed) > 0 {
        return Status::OK;
    }
    // SAFETY: the caller's arguments.
    unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
}

#[test]
fn a_link_that_drops_what_goes_over_it_is_found() {
    unsafe extern "C" fn on(_: PluginHandle, _: u32, _: u32, _: ErrorOut) -> Status {
        LINKS.fetch_add(1, Ordering::Relaxed);
        Status::OK
    }
    unsafe extern "C" fn off(_: PluginHandle, _: u32, _: u32, _: ErrorOut) -> Status {
        LINKS.store(0, Ordering::Relaxed);
        Status::OK
    }
    let case = "copies_between_devices_arrive_with_a_link_and_without";
    is_found_by(case, |table| {
        let mut links = sound_links();
        links.peer_enable = Some(on);
        links.peer_disable = Some(off);
        table.peer = leaked(links);
        table.copy = Some(drops);
    });
}

/// The stream of the work that nobody must wait for.
static STREAM: Mutex<Option<StreamHandle>> = Mutex::new(None);

unsafe extern "C" fn notes(
    plugin: PluginHandle,
    device: u32,
    out: *mut StreamHandle,
    error: ErrorOut,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { sound_streams().stream_create.unwrap()(plugin, device, out, error) };
    // SAFETY: the hook wrote the answer.
    *STREAM.lock().unwrap() = status.is_ok().then(|| unsafe { out.read() });
    status
}

unsafe extern "C" fn waits(plugin: PluginHandle, _: u32, _: u32, error: ErrorOut) -> Status {
    let stream = *STREAM.lock().unwrap();
    let wait = sound_streams().stream_synchronize.unwrap();
    // SAFETY: a live stream; the limit keeps the test from waiting for itself.
    stream.map_or(Status::OK, |stream| unsafe {
        wait(plugin, stream, 20_000_000, error)
    })
}

#[test]
fn a_link_that_waits_for_work_is_found() {
    let faults: [fn(&mut PeerHooks); 2] = [
        |links| links.peer_enable = Some(waits),
        |links| links.peer_disable = Some(waits),
    ];
    for fault in faults {
        let case = "no_work_is_waited_for_to_enable_or_disable_a_link";
        is_found_by(case, |table| {
            let mut streams = sound_streams();
            streams.stream_create = Some(notes);
            table.streams = leaked(streams);
            let mut links = sound_links();
            fault(&mut links);
            table.peer = leaked(links);
        });
    }
}

#[test]
fn a_link_to_a_device_that_is_not_there_is_found() {
    let faults: [fn(&mut PeerHooks); 2] = [
        |links| links.peer_enable = Some(is_fine),
        |links| links.peer_disable = Some(is_fine),
    ];
    for fault in faults {
        in_a_link_is_found_by("no_link_leads_to_a_device_that_is_not_there", fault);
    }
    says!(none: |_, _| false);
    in_a_link_is_found_by("no_link_leads_to_a_device_that_is_not_there", |links| {
        links.peer_can_access = Some(none);
    });
}

#[test]
fn a_retired_plugin_that_enables_links_is_found() {
    let case = "a_retired_plugin_enables_no_link_and_ends_those_that_are";
    in_a_link_is_found_by(case, |links| links.peer_enable = Some(is_fine));
}
