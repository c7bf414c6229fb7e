//! The suite on plugins that do what they must not once they are retired, that panic at their end or before, and
//! what is told of cases that were not asked.
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

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Mutex;

use crossdock_conformance::{Level, Outcome, Report, Subject, run};
use crossdock_sdk::abi::{
    Capabilities, CopyArgs, DeviceInfo, EventHandle, FillArgs, FillHooks, HostCallHooks,
    HostFunction, MemoryInfo, PluginHandle, PluginTable, Status, StreamHandle,
};

use faulty::{ErrorOut, group, open, sound};
use streams::{sound_streams, with_streams};
use suite::{finds, report_of_case};

/// The plugins that were retired.
static RETIRED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

unsafe extern "C" fn retires(plugin: PluginHandle, deadline_ns: u64, error: ErrorOut) -> Status {
    RETIRED.lock().unwrap().insert(plugin.raw());
    // SAFETY: the caller's arguments.
    unsafe { sound().retire.unwrap()(plugin, deadline_ns, error) }
}

fn is_retired(plugin: PluginHandle) -> bool {
    RETIRED.lock().unwrap().contains(&plugin.raw())
}

/// Demands that a hook which is fine once the plugin is retired is found, and named.
fn is_found(hook: &str, fault: impl FnOnce(&mut PluginTable)) {
    let case = "a_retired_plugin_begins_nothing";
    let report = report_of_case(case, |table| {
        table.retire = Some(retires);
        fault(table);
    });
    finds(&report, case);
    let told = format!("{hook} after retire answered OK");
    assert!(report.to_string().contains(&told), "{report}");
}

#[test]
fn a_copy_after_the_end_is_found() {
    unsafe extern "C" fn copies(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        if is_retired(plugin) && stream.is_none() {
            return Status::OK;
        }
        // SAFETY: the caller's arguments.
        unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
    }
    is_found("copy", |table| table.copy = Some(copies));
}

#[test]
fn a_copy_on_a_stream_after_the_end_is_found() {
    unsafe extern "C" fn copies(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        if is_retired(plugin) && !stream.is_none() {
            return Status::OK;
        }
        // SAFETY: the caller's arguments.
        unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
    }
    is_found("copy on a stream", |table| table.copy = Some(copies));
}

#[test]
fn a_fill_after_the_end_is_found() {
    unsafe extern "C" fn fills(
        plugin: PluginHandle,
        args: *const FillArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        if is_retired(plugin) {
            return Status::OK;
        }
        // SAFETY: the sound plugin's group is a constant.
        let fill = unsafe { sound().fill.as_ptr().read() }.fill;
        // SAFETY: the caller's arguments.
        unsafe { fill.unwrap()(plugin, args, stream, error) }
    }
    is_found("fill", |table| {
        table.fill = group(FillHooks { fill: Some(fills) });
    });
}

#[test]
fn an_event_after_the_end_is_found() {
    unsafe extern "C" fn creates(
        plugin: PluginHandle,
        device: u32,
        out: *mut EventHandle,
        error: ErrorOut,
    ) -> Status {
        if is_retired(plugin) {
            return Status::OK;
        }
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().event_create.unwrap()(plugin, device, out, error) }
    }
    let streams = with_streams(|streams| streams.event_create = Some(creates));
    is_found("event_create", streams);
}

#[test]
fn a_host_function_after_the_end_is_found() {
    unsafe extern "C" fn puts(
        plugin: PluginHandle,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
        error: ErrorOut,
    ) -> Status {
        if is_retired(plugin) {
            return Status::OK;
        }
        // SAFETY: the sound plugin's group is a constant.
        let calls = unsafe { sound().host_calls.as_ptr().read() };
        // SAFETY: the caller's arguments.
        unsafe { calls.stream_host_call.unwrap()(plugin, stream, function, word, error) }
    }
    is_found("stream_host_call", |table| {
        table.host_calls = group(HostCallHooks {
            stream_host_call: Some(puts),
        });
    });
}

#[test]
fn a_panic_at_the_end_of_a_plugin_is_found() {
    unsafe extern "C" fn panics(plugin: PluginHandle, error: ErrorOut) -> Status {
        // SAFETY: the caller's arguments.
        let _closed = unsafe { sound().close.unwrap()(plugin, error) };
        Status::PANIC
    }
    let case = "no_hook_panicked_in_the_whole_run";
    let mut hooks = open(|table| table.close = Some(panics));
    let report = report_of(&hooks, Some(case));
    assert_eq!(hooks.close().unwrap_err().status(), Some(Status::PANIC));
    finds(&report, case);
    assert!(report.to_string().contains("`close` panicked"), "{report}");
}

#[test]
fn one_panic_is_told_once() {
    unsafe extern "C" fn panics(
        _: PluginHandle,
        _: u32,
        _: *mut MemoryInfo,
        _: ErrorOut,
    ) -> Status {
        Status::PANIC
    }
    let hooks = open(|table| table.memory_info = Some(panics));
    let report = report_of(&hooks, None);
    let failures: Vec<_> = report.failures().map(|case| case.name).collect();
    let [first, last] = *failures else {
        unreachable!("{report}")
    };
    assert_eq!(last, "no_hook_panicked_in_the_whole_run");
    let skipped = report.counts().1;
    let [remark] = &*report.remarks() else {
        unreachable!("{report}")
    };
    let wanted = format!("a hook panicked in `{first}`: {skipped} cases were not asked");
    assert_eq!(*remark, wanted);
}

#[test]
fn a_bit_that_leaves_out_many_cases_is_told() {
    unsafe extern "C" fn forgets(
        plugin: PluginHandle,
        device: u32,
        out: *mut DeviceInfo,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { sound().device_info.unwrap()(plugin, device, out, error) };
        if status.is_ok() {
            // SAFETY: the hook wrote the answer.
            let info = unsafe { &mut *out };
            info.capabilities = Capabilities(info.capabilities.0 & !Capabilities::ASYNC_COPY.0);
        }
        status
    }
    let told = |report: &Report| report.remarks().join("\n");
    let mut hooks = open(|table| table.device_info = Some(forgets));
    let report = report_of(&hooks, Some("host_function"));
    hooks.close().unwrap();
    let is_left_out =
        |outcome: &Outcome| matches!(outcome, Outcome::Skipped(why) if why.contains("ASYNC_COPY"));
    let count = report
        .cases
        .iter()
        .filter(|case| is_left_out(&case.outcome));
    let count = count.count();
    assert!(count > 1, "{report}");
    let wanted = format!(
        "the plugin has streams and does not claim ASYNC_COPY: {count} cases were not asked"
    );
    assert_eq!(told(&report), wanted);
    assert!(report.to_string().contains(&wanted), "{report}");
    let mut hooks = open(|_table| {});
    assert_eq!(told(&report_of(&hooks, Some("host_function"))), "");
    hooks.close().unwrap();
}

#[test]
fn a_plugin_that_is_absent_says_what_it_looked_for() {
    let report = |detail: &str| Report::absent("mine".to_owned(), Level::Core, detail.to_owned());
    assert!(!report(" ").passed());
    assert!(report("no libmine.so.1 in /usr/lib").passed());
}

fn report_of(hooks: &crossdock::Hooks, case: Option<&str>) -> Report {
    run(&Subject::new(hooks, 0).unwrap(), Level::Full, case)
}
