//! The suite on plugins where a call waits for work on other memory than its own.
#![expect(
    unsafe_code,
    reason = "a faulty hook calls the hook that it stands for"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

#[path = "faulty/table.rs"]
mod faulty;
#[path = "faulty/streams.rs"]
mod streams;
#[path = "faulty/suite.rs"]
mod suite;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

use crossdock_sdk::abi::{
    Address, AdoptHooks, MapHooks, MemoryKind, PluginHandle, PluginTable, PoolHooks, RegisterHooks,
    Status, StreamHandle, StreamHooks,
};

use faulty::{ErrorOut, group, sound};
use streams::{sound_streams, with_streams};
use suite::{finds, report_of_case};

/// The stream that each plugin made last.
static STREAMS: Mutex<BTreeMap<u64, StreamHandle>> = Mutex::new(BTreeMap::new());

unsafe extern "C" fn notes(
    plugin: PluginHandle,
    device: u32,
    out: *mut StreamHandle,
    error: ErrorOut,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { sound_streams().stream_create.unwrap()(plugin, device, out, error) };
    if status.is_ok() {
        // SAFETY: the hook wrote the answer.
        let stream = unsafe { out.read() };
        STREAMS.lock().unwrap().insert(plugin.raw(), stream);
    }
    status
}

/// Waits for all work of that stream, however long that takes.
fn wait_for_work(plugin: PluginHandle) {
    let stream = STREAMS.lock().unwrap().get(&plugin.raw()).copied();
    if let Some(stream) = stream {
        let wait = sound_streams().stream_synchronize.unwrap();
        // SAFETY: the caller's plugin; a stream that is gone is STALE.
        let _over = unsafe { wait(plugin, stream, u64::MAX, null_mut()) };
    }
}

/// Demands that the case finds a call that waits, and says so.
fn is_found_by(case: &str, fault: impl FnOnce(&mut PluginTable)) {
    is_found_among_streams(case, |_| {}, fault);
}

/// The same with other hooks for streams.
fn is_found_among_streams(
    case: &str,
    change: impl FnOnce(&mut StreamHooks),
    fault: impl FnOnce(&mut PluginTable),
) {
    let report = report_of_case(case, |table| {
        let change = |streams: &mut StreamHooks| {
            streams.stream_create = Some(notes);
            change(streams);
        };
        with_streams(change)(table);
        fault(table);
    });
    finds(&report, case);
    let said = report.to_string();
    assert!(said.contains("did not return until"), "{said}");
}

#[test]
fn a_free_that_waits_for_other_work_is_found() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        address: *const Address,
        kind: MemoryKind,
        error: ErrorOut,
    ) -> Status {
        wait_for_work(plugin);
        // SAFETY: the caller's arguments.
        unsafe { sound().free.unwrap()(plugin, address, kind, error) }
    }
    let case = "a_free_does_not_wait_for_work_on_other_memory";
    is_found_by(case, |table| table.free = Some(waits));
}

#[test]
fn a_wait_for_a_stream_that_waits_for_another_one_is_found() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        error: ErrorOut,
    ) -> Status {
        wait_for_work(plugin);
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().stream_synchronize.unwrap()(plugin, stream, timeout_ns, error) }
    }
    let case = "a_wait_for_a_stream_does_not_wait_for_what_another_one_does_later";
    let change = |streams: &mut StreamHooks| streams.stream_synchronize = Some(waits);
    is_found_among_streams(case, change, |_| {});
}

#[test]
fn a_trim_that_waits_until_all_work_is_over_is_found() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        device: u32,
        keep: u64,
        error: ErrorOut,
    ) -> Status {
        wait_for_work(plugin);
        // SAFETY: the sound plugin's group is a constant.
        let pool = unsafe { sound().pool.as_ptr().read() };
        // SAFETY: the caller's arguments.
        unsafe { pool.memory_trim.unwrap()(plugin, device, keep, error) }
    }
    is_found_by("a_trim_waits_for_no_work", |table| {
        // SAFETY: the sound plugin's group is a constant.
        let pool = unsafe { table.pool.as_ptr().read() };
        table.pool = group(PoolHooks {
            memory_trim: Some(waits),
            ..pool
        });
    });
}

#[test]
fn the_end_of_a_registration_that_waits_for_other_work_is_found() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        device: u32,
        pointer: *mut c_void,
        error: ErrorOut,
    ) -> Status {
        wait_for_work(plugin);
        // SAFETY: the sound plugin's group is a constant.
        let register = unsafe { sound().register.as_ptr().read() };
        // SAFETY: the caller's arguments.
        unsafe { register.unregister_host.unwrap()(plugin, device, pointer, error) }
    }
    let case = "the_end_of_a_registration_does_not_wait_for_work_on_other_memory";
    is_found_by(case, |table| {
        // SAFETY: the sound plugin's group is a constant.
        let register = unsafe { table.register.as_ptr().read() };
        table.register = group(RegisterHooks {
            unregister_host: Some(waits),
            ..register
        });
    });
}

#[test]
fn the_end_of_an_adoption_that_waits_for_other_work_is_found() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        device: u32,
        adopted: *const Address,
        error: ErrorOut,
    ) -> Status {
        wait_for_work(plugin);
        // SAFETY: the sound plugin's group is a constant.
        let adopt = unsafe { sound().adopt.as_ptr().read() };
        // SAFETY: the caller's arguments.
        unsafe { adopt.release_adopted.unwrap()(plugin, device, adopted, error) }
    }
    let case = "the_end_of_an_adoption_does_not_wait_for_work_on_other_memory";
    is_found_by(case, |table| {
        // SAFETY: the sound plugin's group is a constant.
        let adopt = unsafe { table.adopt.as_ptr().read() };
        table.adopt = group(AdoptHooks {
            release_adopted: Some(waits),
            ..adopt
        });
    });
}

#[test]
fn the_end_of_a_mapping_that_waits_for_other_work_is_found() {
    // The CPU plugin's memory is seen where it is.
    unsafe extern "C" fn here(
        _: PluginHandle,
        _: u32,
        address: *const Address,
        _: u64,
        out: *mut *mut c_void,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's argument.
        let word = unsafe { address.read() }.word;
        let seen = std::ptr::with_exposed_provenance_mut(usize::try_from(word).unwrap());
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(seen) };
        Status::OK
    }
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        _: u32,
        _: *const Address,
        _: *mut c_void,
        _: ErrorOut,
    ) -> Status {
        wait_for_work(plugin);
        Status::OK
    }
    let case = "the_end_of_a_mapping_does_not_wait_for_work_on_other_memory";
    is_found_by(case, |table| {
        table.map = group(MapHooks {
            map: Some(here),
            unmap: Some(waits),
        });
    });
}
