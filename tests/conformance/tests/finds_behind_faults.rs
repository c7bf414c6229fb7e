//! The suite on plugins whose streams have one fault each that shows without a host event.
#![expect(
    unsafe_code,
    reason = "a faulty hook calls the hook that it stands for"
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

use crossdock_conformance::Outcome;
use crossdock_sdk::abi::{
    CopyArgs, EventHandle, FillArgs, FillHooks, HostCallHooks, HostFunction, PluginHandle,
    PluginTable, Status, StreamHandle, StridedArgs, StridedHooks,
};

use faulty::{ErrorOut, group, sound};
use streams::{sound_streams, with_streams};
use suite::{finds, report_of_case};

/// Done, whatever is so.
fn lie(status: Status) -> Status {
    match status {
        Status::NOT_READY | Status::TIMEOUT => Status::OK,
        status => status,
    }
}

#[test]
fn a_stream_that_is_always_done_is_found() {
    unsafe extern "C" fn lies(p: PluginHandle, stream: StreamHandle, _: ErrorOut) -> Status {
        // SAFETY: the caller's arguments.
        lie(unsafe { sound_streams().stream_query.unwrap()(p, stream, null_mut()) })
    }
    let case = "a_stream_that_says_it_is_done_has_done_its_work";
    let streams = with_streams(|streams| streams.stream_query = Some(lies));
    finds(&report_of_case(case, streams), case);
}

#[test]
fn a_wait_without_time_that_is_always_over_is_found() {
    unsafe extern "C" fn lies(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        _: ErrorOut,
    ) -> Status {
        let wait = sound_streams().stream_synchronize.unwrap();
        // SAFETY: the caller's arguments.
        lie(unsafe { wait(plugin, stream, timeout_ns, null_mut()) })
    }
    let case = "a_wait_for_a_stream_without_time_is_over_with_its_work";
    let streams = with_streams(|streams| streams.stream_synchronize = Some(lies));
    finds(&report_of_case(case, streams), case);
}

#[test]
fn an_event_that_has_always_happened_is_found() {
    unsafe extern "C" fn lies(p: PluginHandle, event: EventHandle, _: ErrorOut) -> Status {
        // SAFETY: the caller's arguments.
        lie(unsafe { sound_streams().event_query.unwrap()(p, event, null_mut()) })
    }
    let case = "an_event_that_happened_has_its_work_behind_it";
    let streams = with_streams(|streams| streams.event_query = Some(lies));
    finds(&report_of_case(case, streams), case);
}

#[test]
fn a_wait_for_an_event_that_only_looks_is_found() {
    unsafe extern "C" fn looks(
        plugin: PluginHandle,
        event: EventHandle,
        _: u64,
        _: ErrorOut,
    ) -> Status {
        let wait = sound_streams().event_synchronize.unwrap();
        // SAFETY: the caller's arguments.
        lie(unsafe { wait(plugin, event, 0, null_mut()) })
    }
    for case in [
        "a_wait_for_an_event_is_over_with_its_work",
        "a_wait_for_an_event_without_time_is_over_with_its_work",
    ] {
        let streams = with_streams(|streams| streams.event_synchronize = Some(looks));
        finds(&report_of_case(case, streams), case);
    }
}

/// A hook that does little work at the call, whatever is on the stream.
macro_rules! at_once {
    ($name:ident: $args:ident, $sound:expr, $is_little:expr) => {
        unsafe extern "C" fn $name(
            plugin: PluginHandle,
            args: *const $args,
            stream: StreamHandle,
            error: ErrorOut,
        ) -> Status {
            let is_little: fn(&$args) -> bool = $is_little;
            // SAFETY: the caller's arguments.
            let stream = match is_little(unsafe { &*args }) {
                true => StreamHandle::NONE,
                false => stream,
            };
            // SAFETY: the caller's arguments.
            unsafe { $sound(plugin, args, stream, error) }
        }
    };
}

#[test]
fn little_work_that_comes_before_long_copies_is_found() {
    at_once!(copies: CopyArgs, sound().copy.unwrap(), |args| args.bytes < 65536);
    at_once!(fills: FillArgs, sound().fill.as_ptr().read().fill.unwrap(), |_| true);
    at_once!(packs: StridedArgs, sound().strided.as_ptr().read().copy_strided.unwrap(), |_| true);
    let case = "a_copy_behind_long_copies_comes_after_them";
    finds(
        &report_of_case(case, |table| table.copy = Some(copies)),
        case,
    );
    let case = "a_fill_behind_long_copies_comes_after_them";
    let fill = FillHooks { fill: Some(fills) };
    finds(
        &report_of_case(case, |table| table.fill = group(fill)),
        case,
    );
    let case = "a_strided_copy_behind_long_copies_comes_after_them";
    let strided = StridedHooks {
        copy_strided: Some(packs),
    };
    finds(
        &report_of_case(case, |table| table.strided = group(strided)),
        case,
    );
}

#[test]
fn a_host_function_that_runs_at_once_is_found() {
    unsafe extern "C" fn at_once(
        _: PluginHandle,
        _: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's function with its word, once.
        unsafe { function.0.unwrap()(word) };
        Status::OK
    }
    let case = "a_host_function_behind_long_copies_comes_after_them";
    let calls = HostCallHooks {
        stream_host_call: Some(at_once),
    };
    finds(
        &report_of_case(case, |table| table.host_calls = group(calls)),
        case,
    );
}

#[test]
fn a_wait_for_an_event_that_does_nothing_is_found() {
    unsafe extern "C" fn skips(
        _: PluginHandle,
        _: StreamHandle,
        _: EventHandle,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let case = "a_stream_waits_for_the_long_copies_before_an_event";
    let streams = with_streams(|streams| streams.stream_wait_event = Some(skips));
    finds(&report_of_case(case, streams), case);
}

#[test]
fn a_wait_that_ends_with_its_event_is_found() {
    /// What waits, and for which event.
    static WAITS: Mutex<BTreeMap<(u64, u64), EventHandle>> = Mutex::new(BTreeMap::new());
    unsafe extern "C" fn notes(
        plugin: PluginHandle,
        stream: StreamHandle,
        event: EventHandle,
        _: ErrorOut,
    ) -> Status {
        let key = (plugin.raw(), stream.raw());
        WAITS.lock().unwrap().insert(key, event);
        Status::OK
    }
    unsafe extern "C" fn forgets(p: PluginHandle, event: EventHandle, error: ErrorOut) -> Status {
        WAITS.lock().unwrap().retain(|_, waited| *waited != event);
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().event_destroy.unwrap()(p, event, error) }
    }
    unsafe extern "C" fn copies(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        let event = WAITS.lock().unwrap().remove(&(plugin.raw(), stream.raw()));
        if let Some(event) = event {
            // SAFETY: the caller's handles.
            unsafe { sound_streams().stream_wait_event.unwrap()(plugin, stream, event, error) };
        }
        // SAFETY: the caller's arguments.
        unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
    }
    let faulty = |table: &mut PluginTable| {
        with_streams(|streams| {
            streams.stream_wait_event = Some(notes);
            streams.event_destroy = Some(forgets);
        })(table);
        table.copy = Some(copies);
    };
    let case = "a_stream_still_waits_for_an_event_that_was_destroyed";
    finds(&report_of_case(case, faulty), case);
    let case = "a_stream_waits_for_the_long_copies_before_an_event";
    assert!(report_of_case(case, faulty).passed());
}

#[test]
fn copies_that_wait_are_no_pass() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        args: *const CopyArgs,
        _: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        unsafe { sound().copy.unwrap()(plugin, args, StreamHandle::NONE, error) }
    }
    let case = "a_long_copy_on_a_stream_returns_before_it_is_done";
    let outcome = |report: &crossdock_conformance::Report| report.cases[0].outcome.clone();
    let report = report_of_case(case, |table| table.copy = Some(waits));
    // A device that is done at once looks the same.
    assert!(matches!(outcome(&report), Outcome::Skipped(why) if why.contains("ASYNC_COPY")));
    assert_eq!(outcome(&report_of_case(case, |_| {})), Outcome::Passed);
}

#[test]
fn a_plugin_that_retires_before_its_work_is_over_is_found() {
    unsafe extern "C" fn at_once(plugin: PluginHandle, _: u64, _: ErrorOut) -> Status {
        // SAFETY: the caller's handle.
        let _late = unsafe { sound().retire.unwrap()(plugin, 0, null_mut()) };
        Status::OK
    }
    let case = "a_retired_plugin_waits_for_its_work";
    finds(
        &report_of_case(case, |table| table.retire = Some(at_once)),
        case,
    );
}

#[test]
fn a_number_that_is_made_up_for_each_stream_is_found() {
    unsafe extern "C" fn seven(
        _: PluginHandle,
        _: StreamHandle,
        out: *mut u64,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(7) };
        Status::OK
    }
    let case = "live_streams_with_one_number_are_one_stream";
    let streams = with_streams(|streams| streams.stream_native = Some(seven));
    finds(&report_of_case(case, streams), case);
}

#[test]
fn a_host_function_that_runs_under_a_lock_of_a_hook_is_found() {
    static LOCK: Mutex<()> = Mutex::new(());
    struct Call(HostFunction, *mut c_void);
    unsafe extern "C" fn locked(word: *mut c_void) {
        // SAFETY: `puts` leaked it for this one run.
        let Call(function, word) = unsafe { *Box::from_raw(word.cast::<Call>()) };
        let _held = LOCK.lock();
        // SAFETY: the suite's function and word, once.
        unsafe { function.0.unwrap()(word) };
    }
    unsafe extern "C" fn puts(
        plugin: PluginHandle,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
        error: ErrorOut,
    ) -> Status {
        let word = Box::into_raw(Box::new(Call(function, word))).cast();
        // SAFETY: the sound plugin's group is a constant.
        let calls = unsafe { sound().host_calls.as_ptr().read() };
        let function = HostFunction(Some(locked));
        // SAFETY: the caller's arguments, with a function and a word that are used once.
        unsafe { calls.stream_host_call.unwrap()(plugin, stream, function, word, error) }
    }
    unsafe extern "C" fn asks(p: PluginHandle, stream: StreamHandle, error: ErrorOut) -> Status {
        let _held = LOCK.lock();
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().stream_query.unwrap()(p, stream, error) }
    }
    let case = "a_host_function_runs_under_no_lock_of_a_hook";
    let report = report_of_case(case, |table| {
        with_streams(|streams| streams.stream_query = Some(asks))(table);
        table.host_calls = group(HostCallHooks {
            stream_host_call: Some(puts),
        });
    });
    finds(&report, case);
    assert!(report.to_string().contains("holds a lock"), "{report}");
}

#[test]
fn a_host_function_that_runs_only_in_a_wait_is_found() {
    type Call = (HostFunction, usize);
    static DROPPED: Mutex<Vec<Call>> = Mutex::new(Vec::new());
    unsafe extern "C" fn drops(
        _: PluginHandle,
        _: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
        _: ErrorOut,
    ) -> Status {
        DROPPED.lock().unwrap().push((function, word.addr()));
        Status::OK
    }
    unsafe extern "C" fn runs(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        error: ErrorOut,
    ) -> Status {
        for (function, word) in DROPPED.lock().unwrap().drain(..) {
            // SAFETY: the suite's function, whose word is a number, once.
            unsafe { function.0.unwrap()(std::ptr::without_provenance_mut(word)) };
        }
        let synchronize = sound_streams().stream_synchronize.unwrap();
        // SAFETY: the caller's arguments.
        unsafe { synchronize(plugin, stream, timeout_ns, error) }
    }
    let case = "a_host_function_after_a_failure_runs_where_its_stream_is_only_asked";
    let report = report_of_case(case, |table| {
        with_streams(|streams| streams.stream_synchronize = Some(runs))(table);
        table.host_calls = group(HostCallHooks {
            stream_host_call: Some(drops),
        });
    });
    finds(&report, case);
}
