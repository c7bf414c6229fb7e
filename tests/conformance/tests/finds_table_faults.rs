//! The suite on plugins that have one fault each in what they say of themselves and of their failures.
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
#[path = "faulty/suite.rs"]
mod suite;

use std::ptr::{NonNull, null_mut};

use crossdock::{Hooks, Table};
use crossdock_sdk::abi::{
    CopyArgs, HostServices, PluginHandle, ProbeInfo, StaticPtr, Status, StreamHandle,
};

use faulty::{ErrorOut, group, sound};
use suite::{finds, report_of_case};

/// The sound plugin's copy.
fn copied(
    plugin: PluginHandle,
    args: *const CopyArgs,
    stream: StreamHandle,
    error: ErrorOut,
) -> Status {
    // SAFETY: the arguments of the caller, who is the host.
    unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
}

/// Demands that a case finds a fault of `copy`.
fn is_found_by(
    case: &str,
    copy: unsafe extern "C" fn(PluginHandle, *const CopyArgs, StreamHandle, ErrorOut) -> Status,
) {
    finds(&report_of_case(case, |table| table.copy = Some(copy)), case);
}

#[test]
fn a_copy_that_fails_without_an_error_object_is_found() {
    unsafe extern "C" fn silent(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        _: ErrorOut,
    ) -> Status {
        copied(plugin, args, stream, null_mut())
    }
    is_found_by("a_failure_says_what_failed_and_why", silent);
}

#[test]
fn an_error_object_that_says_ok_is_found() {
    unsafe extern "C" fn well(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        let status = copied(plugin, args, stream, error);
        // SAFETY: NULL, or the caller's room.
        let object = unsafe { error.as_ref() }.map_or(null_mut(), |object| *object);
        // SAFETY: NULL, or the object that the hook made just now.
        if let Some(object) = unsafe { object.as_mut() } {
            object.status = Status::OK;
        }
        status
    }
    is_found_by("an_error_object_never_says_ok", well);
}

#[test]
fn an_error_object_beside_a_success_is_found() {
    unsafe extern "C" fn noisy(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        let status = copied(plugin, args, stream, error);
        if status.is_ok() {
            // SAFETY: no index of a device; the error is the caller's.
            unsafe { sound().device_info.unwrap()(plugin, u32::MAX, null_mut(), error) };
        }
        status
    }
    is_found_by("a_success_gives_no_error_object", noisy);
}

#[test]
fn a_failure_that_comes_only_where_its_error_has_room_is_found() {
    unsafe extern "C" fn demanding(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        let status = copied(plugin, args, stream, error);
        if error.is_null() { Status::OK } else { status }
    }
    is_found_by("a_failure_needs_no_room_for_an_error_object", demanding);
}

#[test]
fn a_probe_that_finds_more_devices_than_there_are_is_found() {
    unsafe extern "C" fn boasts(out: *mut ProbeInfo, error: ErrorOut) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { sound().probe.unwrap()(out, error) };
        // SAFETY: the hook wrote the answer, which is the caller's.
        unsafe { (*out).device_count += 1 };
        status
    }
    let case = "a_probe_finds_as_many_devices_as_there_are";
    finds(
        &report_of_case(case, |table| table.probe = Some(boasts)),
        case,
    );
}

#[test]
fn a_table_without_its_description_is_found() {
    let case = "a_table_has_the_description_of_its_file";
    let none = StaticPtr::NULL;
    let other = StaticPtr::text("mine\0\0");
    let later = StaticPtr::text("CROSSDOCK1\0name=a\0abi=1.7\0devices=cpu\0\0");
    for description in [none, other, later] {
        let report = report_of_case(case, |table| table.description = description);
        finds(&report, case);
    }
}

#[test]
fn a_plugin_that_opens_with_the_handle_0_is_refused() {
    unsafe extern "C" fn opens(
        _: *const HostServices,
        out: *mut PluginHandle,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(PluginHandle::NONE) };
        Status::OK
    }
    let mut faulty = sound();
    faulty.open = Some(opens);
    let faulty = NonNull::new(group(faulty).as_ptr().cast_mut()).unwrap();
    // SAFETY: a whole table, which is leaked, with the groups of the sound one.
    let table = unsafe { Table::read(faulty) }.unwrap();
    let mut hooks = Hooks::new("faulty".to_owned(), table);
    let error = hooks.open().unwrap_err();
    assert_eq!(error.status(), Some(Status::ABI));
    assert!(error.why().contains("handle 0"), "{}", error.why());
    assert!(hooks.handle().is_none());
}
