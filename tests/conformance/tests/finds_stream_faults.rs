//! The suite on plugins whose streams have one fault each, most of them about work that failed.
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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossdock_sdk::abi::{
    CopyArgs, EventHandle, FillArgs, FillHooks, HostFunction, PluginHandle, Status, StreamHandle,
    StreamHooks, StridedArgs, StridedHooks, TimingHooks, WrapHooks,
};

use faulty::{ErrorOut, group, sound};
use streams::{sound_streams, with_streams};
use suite::{finds, report_of_case};

/// The failure of work that a plugin told by an event; each fault is on one stream.
static FAILURES: Mutex<BTreeMap<u64, Status>> = Mutex::new(BTreeMap::new());

/// `event_synchronize` that takes down a failure.
unsafe extern "C" fn takes_down(
    plugin: PluginHandle,
    event: EventHandle,
    timeout_ns: u64,
    error: ErrorOut,
) -> Status {
    let wait = sound_streams().event_synchronize.unwrap();
    // SAFETY: the caller's arguments.
    let status = unsafe { wait(plugin, event, timeout_ns, error) };
    if status.is_failure_of_work() {
        FAILURES.lock().unwrap().insert(plugin.raw(), status);
    }
    status
}

/// The failure that was taken down, in place of an answer that tells of none.
fn or_failure(plugin: PluginHandle, status: Status) -> Status {
    let failures = FAILURES.lock().unwrap();
    let failure = failures.get(&plugin.raw()).copied();
    failure.unwrap_or(status)
}

fn synchronize(plugin: PluginHandle, stream: StreamHandle, ns: u64, error: ErrorOut) -> Status {
    // SAFETY: the arguments of the caller, who is the host.
    unsafe { sound_streams().stream_synchronize.unwrap()(plugin, stream, ns, error) }
}

fn query(plugin: PluginHandle, stream: StreamHandle, error: ErrorOut) -> Status {
    // SAFETY: the arguments of the caller, who is the host.
    unsafe { sound_streams().stream_query.unwrap()(plugin, stream, error) }
}

/// Demands that a case finds a fault of the streams.
fn is_found_by(case: &str, fault: impl FnOnce(&mut StreamHooks)) {
    finds(&report_of_case(case, with_streams(fault)), case);
}

#[test]
fn a_query_that_tells_of_a_failure_before_all_is_over_is_found() {
    unsafe extern "C" fn early(p: PluginHandle, stream: StreamHandle, error: ErrorOut) -> Status {
        match query(p, stream, error) {
            Status::NOT_READY => or_failure(p, Status::NOT_READY),
            status => status,
        }
    }
    is_found_by("a_failure_is_not_told_while_later_work_runs", |streams| {
        streams.event_synchronize = Some(takes_down);
        streams.stream_query = Some(early);
    });
}

#[test]
fn a_wait_that_ends_with_the_failure_and_not_with_the_work_is_found() {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn early(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        error: ErrorOut,
    ) -> Status {
        let status = or_failure(plugin, Status::OK);
        // Once: the suite gives memory back on such an answer, and the stream still uses it.
        if status.is_ok() || IS_TOLD.swap(true, Ordering::Relaxed) {
            return synchronize(plugin, stream, timeout_ns, error);
        }
        status
    }
    is_found_by("a_failure_is_not_told_while_later_work_runs", |streams| {
        streams.event_synchronize = Some(takes_down);
        streams.stream_synchronize = Some(early);
    });
}

#[test]
fn a_wait_that_tells_of_a_failure_when_its_time_is_over_is_found() {
    unsafe extern "C" fn early(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        error: ErrorOut,
    ) -> Status {
        match synchronize(plugin, stream, timeout_ns, error) {
            Status::TIMEOUT => or_failure(plugin, Status::TIMEOUT),
            status => status,
        }
    }
    is_found_by("a_failure_is_not_told_while_later_work_runs", |streams| {
        streams.event_synchronize = Some(takes_down);
        streams.stream_synchronize = Some(early);
    });
}

#[test]
fn a_wait_that_forgets_a_failure_when_its_time_is_over_is_found() {
    static LATE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    unsafe extern "C" fn forgets(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        _: ErrorOut,
    ) -> Status {
        let status = synchronize(plugin, stream, timeout_ns, null_mut());
        let mut late = LATE.lock().unwrap();
        if status == Status::TIMEOUT {
            late.insert(stream.raw());
        }
        if status.is_failure_of_work() && late.contains(&stream.raw()) {
            return Status::OK;
        }
        status
    }
    let case = "a_wait_that_runs_out_of_time_tells_of_no_failure";
    is_found_by(case, |streams| streams.stream_synchronize = Some(forgets));
}

#[test]
fn work_that_is_left_out_behind_failed_work_is_found() {
    unsafe extern "C" fn leaves_out(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        if !stream.is_none() && !or_failure(plugin, Status::OK).is_ok() {
            return Status::OK;
        }
        // SAFETY: the caller's arguments.
        unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
    }
    let case = "work_behind_failed_work_still_runs";
    let streams = with_streams(|streams| streams.event_synchronize = Some(takes_down));
    let report = report_of_case(case, |table| {
        streams(table);
        table.copy = Some(leaves_out);
    });
    finds(&report, case);
}

/// A hook that does its work at the call, whatever the stream waits for.
macro_rules! at_once {
    ($name:ident: $args:ident, $sound:expr) => {
        unsafe extern "C" fn $name(
            plugin: PluginHandle,
            args: *const $args,
            _: StreamHandle,
            error: ErrorOut,
        ) -> Status {
            // SAFETY: the caller's arguments.
            unsafe { $sound(plugin, args, StreamHandle::NONE, error) }
        }
    };
}

#[test]
fn work_that_begins_before_its_stream_gets_there_is_found() {
    at_once!(copies: CopyArgs, sound().copy.unwrap());
    at_once!(fills: FillArgs, sound().fill.as_ptr().read().fill.unwrap());
    at_once!(packs: StridedArgs, sound().strided.as_ptr().read().copy_strided.unwrap());
    let case = "a_copy_begins_when_its_stream_gets_there";
    finds(
        &report_of_case(case, |table| table.copy = Some(copies)),
        case,
    );
    let case = "a_fill_begins_when_its_stream_gets_there";
    let fill = FillHooks { fill: Some(fills) };
    finds(
        &report_of_case(case, |table| table.fill = group(fill)),
        case,
    );
    let case = "a_strided_copy_begins_when_its_stream_gets_there";
    let strided = StridedHooks {
        copy_strided: Some(packs),
    };
    finds(
        &report_of_case(case, |table| table.strided = group(strided)),
        case,
    );
}

#[test]
fn a_copy_that_waits_until_its_stream_gets_there_is_found() {
    unsafe extern "C" fn waits(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        if !stream.is_none() {
            let _over = synchronize(plugin, stream, u64::MAX, null_mut());
        }
        // SAFETY: the caller's arguments.
        unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
    }
    let case = "a_copy_behind_the_host_does_not_wait_for_it";
    finds(
        &report_of_case(case, |table| table.copy = Some(waits)),
        case,
    );
}

#[test]
fn a_stream_that_is_made_of_any_number_is_found() {
    unsafe extern "C" fn believes(
        _: PluginHandle,
        _: u32,
        native: u64,
        out: *mut StreamHandle,
        _: ErrorOut,
    ) -> Status {
        let word = NOBODYS | native;
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(StreamHandle::from_raw(word)) };
        Status::OK
    }
    const NOBODYS: u64 = 1 << 40;
    let case = "a_number_below_all_addresses_is_a_stream_that_works_or_refused";
    let report = report_of_case(case, |table| {
        table.wrap = group(WrapHooks {
            stream_wrap: Some(believes),
        });
    });
    finds(&report, case);
}

#[test]
fn a_wait_without_time_that_never_looks_is_found() {
    unsafe extern "C" fn blind(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        error: ErrorOut,
    ) -> Status {
        match timeout_ns {
            0 => Status::TIMEOUT,
            _ => synchronize(plugin, stream, timeout_ns, error),
        }
    }
    let case = "a_wait_without_time_answers_for_work_that_is_over";
    is_found_by(case, |streams| streams.stream_synchronize = Some(blind));
}

#[test]
fn a_wait_that_moves_to_a_later_record_is_found() {
    /// What a stream looks at when it gets there.
    struct Look(PluginHandle, EventHandle);

    unsafe extern "C" fn look(word: *mut c_void) {
        // SAFETY: `moves` made it for this one call.
        let look = unsafe { Box::from_raw(word.cast::<Look>()) };
        let query = sound_streams().event_query.unwrap();
        // SAFETY: the plugin is closed after its work; an event that is gone is STALE.
        while unsafe { query(look.0, look.1, null_mut()) } == Status::NOT_READY {
            // It asks anew each time, so it never keeps a record; nobody unparks it.
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    unsafe extern "C" fn moves(
        plugin: PluginHandle,
        stream: StreamHandle,
        event: EventHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let calls = unsafe { sound().host_calls.as_ptr().read() };
        let word = Box::into_raw(Box::new(Look(plugin, event))).cast();
        let function = HostFunction(Some(look));
        // SAFETY: the sound plugin takes the word for one call of a function for any thread.
        unsafe { calls.stream_host_call.unwrap()(plugin, stream, function, word, error) }
    }
    let case = "a_wait_keeps_the_record_that_it_was_called_for";
    is_found_by(case, |streams| streams.stream_wait_event = Some(moves));
}

#[test]
fn a_plugin_that_retires_and_waits_for_nothing_is_found() {
    unsafe extern "C" fn at_once(plugin: PluginHandle, _: u64, _: ErrorOut) -> Status {
        // SAFETY: the caller's handle.
        let _late = unsafe { sound().retire.unwrap()(plugin, 0, null_mut()) };
        Status::OK
    }
    let case = "a_plugin_gives_up_work_that_does_not_end_before_the_deadline";
    let report = report_of_case(case, |table| table.retire = Some(at_once));
    finds(&report, case);
}

#[test]
fn a_plugin_that_forgets_what_failed_when_it_retires_is_found() {
    static IS_RETIRED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn retires(plugin: PluginHandle, ns: u64, error: ErrorOut) -> Status {
        IS_RETIRED.store(true, Ordering::Relaxed);
        // SAFETY: the caller's arguments.
        unsafe { sound().retire.unwrap()(plugin, ns, error) }
    }
    unsafe extern "C" fn forgets(p: PluginHandle, stream: StreamHandle, _: ErrorOut) -> Status {
        let status = query(p, stream, null_mut());
        if status.is_failure_of_work() && IS_RETIRED.load(Ordering::Relaxed) {
            return Status::OK;
        }
        status
    }
    let case = "a_retired_plugin_still_tells_of_work_that_failed";
    let streams = with_streams(|streams| streams.stream_query = Some(forgets));
    let report = report_of_case(case, |table| {
        streams(table);
        table.retire = Some(retires);
    });
    finds(&report, case);
}

#[test]
fn a_time_that_is_nothing_where_it_goes_backwards_is_found() {
    unsafe extern "C" fn at_least_nothing(
        plugin: PluginHandle,
        start: EventHandle,
        end: EventHandle,
        out: *mut u64,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let timing = unsafe { sound().timing.as_ptr().read() };
        // SAFETY: the caller's arguments.
        let status = unsafe { timing.event_elapsed.unwrap()(plugin, start, end, out, error) };
        if status != Status::INVALID {
            return status;
        }
        // SAFETY: the caller's place.
        unsafe { out.write(0) };
        Status::OK
    }
    let case = "no_time_is_told_backwards";
    let report = report_of_case(case, |table| {
        table.timing = group(TimingHooks {
            event_elapsed: Some(at_least_nothing),
        });
    });
    finds(&report, case);
}

fn ask(plugin: PluginHandle, event: EventHandle) -> Status {
    // SAFETY: the arguments of the caller, who is the host.
    unsafe { sound_streams().event_query.unwrap()(plugin, event, null_mut()) }
}

/// Both ways to ask an event, with what is made of the sound answer.
macro_rules! events {
    ($query:ident, $wait:ident: $fault:expr) => {
        unsafe extern "C" fn $query(p: PluginHandle, event: EventHandle, _: ErrorOut) -> Status {
            let fault: fn(EventHandle, Status) -> Status = $fault;
            fault(event, ask(p, event))
        }
        unsafe extern "C" fn $wait(
            plugin: PluginHandle,
            event: EventHandle,
            timeout_ns: u64,
            _: ErrorOut,
        ) -> Status {
            let fault: fn(EventHandle, Status) -> Status = $fault;
            let wait = sound_streams().event_synchronize.unwrap();
            // SAFETY: the caller's arguments.
            fault(event, unsafe {
                wait(plugin, event, timeout_ns, null_mut())
            })
        }
    };
}

/// Notes in `is_told` that a stream told of a failure.
fn telling(is_told: &AtomicBool, status: Status) -> Status {
    is_told.fetch_or(status.is_failure_of_work(), Ordering::Relaxed);
    status
}

#[test]
fn an_event_that_forgets_its_failure_once_its_stream_told_it_is_found() {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn tells(p: PluginHandle, s: StreamHandle, ns: u64, e: ErrorOut) -> Status {
        telling(&IS_TOLD, synchronize(p, s, ns, e))
    }
    events!(query, wait: |_, status| {
        let is_lost = status.is_failure_of_work() && IS_TOLD.load(Ordering::Relaxed);
        if is_lost { Status::OK } else { status }
    });
    let case = "a_failure_is_told_by_an_event_that_is_looked_at_late";
    is_found_by(case, |streams| {
        streams.stream_synchronize = Some(tells);
        streams.event_query = Some(query);
        streams.event_synchronize = Some(wait);
    });
}

#[test]
fn a_wait_for_an_event_that_failed_before_and_does_nothing_is_found() {
    unsafe extern "C" fn skips(
        plugin: PluginHandle,
        stream: StreamHandle,
        event: EventHandle,
        error: ErrorOut,
    ) -> Status {
        if ask(plugin, event) != Status::NOT_READY {
            return Status::OK;
        }
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().stream_wait_event.unwrap()(plugin, stream, event, error) }
    }
    let case = "a_failure_is_told_by_an_event_that_is_looked_at_late";
    is_found_by(case, |streams| streams.stream_wait_event = Some(skips));
}

#[test]
fn an_event_that_does_not_see_what_failed_before_its_record_is_found() {
    static LATE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    unsafe extern "C" fn records(
        plugin: PluginHandle,
        event: EventHandle,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        if query(plugin, stream, null_mut()).is_failure_of_work() {
            LATE.lock().unwrap().insert(event.raw());
        }
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().event_record.unwrap()(plugin, event, stream, error) }
    }
    events!(asks, waits: |event, status| {
        let is_late = LATE.lock().unwrap().contains(&event.raw());
        if is_late && status.is_failure_of_work() { Status::OK } else { status }
    });
    let case = "an_event_that_is_recorded_behind_failed_work_has_its_failure";
    is_found_by(case, |streams| {
        streams.event_record = Some(records);
        streams.event_query = Some(asks);
        streams.event_synchronize = Some(waits);
    });
}

#[test]
fn an_event_that_has_the_failure_of_later_work_is_found() {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn tells(p: PluginHandle, s: StreamHandle, ns: u64, e: ErrorOut) -> Status {
        telling(&IS_TOLD, synchronize(p, s, ns, e))
    }
    events!(asks, waits: |_, status| {
        let spreads = status.is_ok() && IS_TOLD.load(Ordering::Relaxed);
        if spreads { Status::VENDOR } else { status }
    });
    let case = "an_event_before_failed_work_has_no_failure";
    is_found_by(case, |streams| {
        streams.stream_synchronize = Some(tells);
        streams.event_query = Some(asks);
        streams.event_synchronize = Some(waits);
    });
}

#[test]
fn an_event_that_is_well_once_its_stream_is_gone_is_found() {
    static IS_GONE: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn goes(p: PluginHandle, stream: StreamHandle, error: ErrorOut) -> Status {
        IS_GONE.store(true, Ordering::Relaxed);
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().stream_destroy.unwrap()(p, stream, error) }
    }
    events!(asks, waits: |_, status| {
        let is_lost = status.is_failure_of_work() && IS_GONE.load(Ordering::Relaxed);
        if is_lost { Status::OK } else { status }
    });
    let case = "a_failure_is_told_by_an_event_of_a_destroyed_stream";
    is_found_by(case, |streams| {
        streams.stream_destroy = Some(goes);
        streams.event_query = Some(asks);
        streams.event_synchronize = Some(waits);
    });
}
