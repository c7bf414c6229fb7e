//! The suite on plugins with one fault each: it has to find every fault, and by the right case.
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
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_conformance::{Level, Report, Subject, run};
use crossdock_sdk::abi::{
    Address, AdoptFlags, AdoptHooks, AllocateArgs, AsyncMemoryHooks, AttributeHooks, CopyArgs,
    DeviceInfo, EventHandle, FillHooks, HostCallHooks, HostFunction, MemoryKind, PluginHandle,
    PluginTable, PointerInfo, RegisterHooks, Side, Status, StreamHandle, StreamHooks, StridedArgs,
    StridedHooks,
};

use faulty::{ErrorOut, group, open, sound};
use streams::{sound_streams, with_streams};
use suite::{finds, report_of_case};

/// Runs the suite on a table with a fault.
fn report_of(change: impl FnOnce(&mut PluginTable)) -> Report {
    let mut hooks = open(change);
    let subject = Subject::new(&hooks, 0).unwrap();
    let report = run(&subject, Level::Full, None);
    hooks.close().unwrap();
    report
}

#[test]
fn the_table_without_a_fault_passes() {
    let report = report_of(|_| {});
    assert!(report.passed(), "{report}");
}

#[test]
fn a_copy_that_is_one_byte_short_is_found() {
    unsafe extern "C" fn short(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let mut args = unsafe { args.read() };
        args.bytes = (args.bytes - 1).max(1);
        let copy = sound().copy.unwrap();
        // SAFETY: the caller's arguments, for a byte less.
        unsafe { copy(plugin, &raw const args, stream, error) }
    }
    finds(
        &report_of(|table| table.copy = Some(short)),
        "bytes_come_back_as_they_went",
    );
}

#[test]
fn a_copy_that_does_not_look_where_its_memory_ends_is_found() {
    unsafe extern "C" fn cuts(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        let copy = sound().copy.unwrap();
        // SAFETY: the caller's arguments, and no error object.
        let status = unsafe { copy(plugin, args, stream, std::ptr::null_mut()) };
        if status != Status::INVALID {
            return status;
        }
        // SAFETY: the caller's arguments.
        let mut args = unsafe { args.read() };
        args.bytes = 1;
        // SAFETY: the caller's arguments, for a part that is there.
        unsafe { copy(plugin, &raw const args, stream, error) }
    }
    let case = "a_copy_that_reaches_past_its_allocation_is_refused";
    finds(&report_of_case(case, |table| table.copy = Some(cuts)), case);
}

/// What the sound plugin allocates, at another place.
fn allocated(
    plugin: PluginHandle,
    args: *const AllocateArgs,
    (out, error): (*mut Address, ErrorOut),
    change: impl FnOnce(&mut Address),
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { sound().allocate.unwrap()(plugin, args, out, error) };
    if status.is_ok() {
        // SAFETY: the hook wrote the address, which is the caller's.
        change(unsafe { &mut *out });
    }
    status
}

#[test]
fn an_address_that_the_host_could_get_too_is_found() {
    unsafe extern "C" fn elsewhere(
        plugin: PluginHandle,
        args: *const AllocateArgs,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // Far from all that a process has.
        allocated(plugin, args, (out, error), |address| {
            address.word ^= 1 << 44
        })
    }
    let case = "a_device_address_is_no_address_of_something_else";
    let report = report_of_case(case, |table| table.allocate = Some(elsewhere));
    finds(&report, case);
}

#[test]
fn a_failure_told_as_unsupported_after_a_change_is_found() {
    unsafe extern "C" fn changes(
        plugin: PluginHandle,
        args: *const StridedArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let strided = unsafe { sound().strided.as_ptr().read() }
            .copy_strided
            .unwrap();
        // SAFETY: the caller's arguments.
        let _done = unsafe { strided(plugin, args, stream, error) };
        Status::UNSUPPORTED
    }
    let report = report_of(|table| {
        table.strided = group(StridedHooks {
            copy_strided: Some(changes),
        })
    });
    finds(&report, "permuted_axes_are_copied_or_unsupported");
}

#[test]
fn an_alignment_of_64_is_found() {
    unsafe extern "C" fn shifted(
        plugin: PluginHandle,
        args: *const AllocateArgs,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        allocated(plugin, args, (out, error), |address| address.word += 64)
    }
    finds(
        &report_of(|table| table.allocate = Some(shifted)),
        "memory_begins_on_256_bytes",
    );
}

#[test]
fn a_free_that_takes_anything_is_found() {
    unsafe extern "C" fn trusting(
        _: PluginHandle,
        _: *const Address,
        _: MemoryKind,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let report = report_of(|table| table.free = Some(trusting));
    finds(&report, "free_refuses_memory_of_others");
    finds(&report, "free_refuses_what_was_freed");
    finds(&report, "freed_memory_is_not_answered_for");
}

#[test]
fn a_pointer_query_that_answers_for_everything_is_found() {
    unsafe extern "C" fn claims(
        _: PluginHandle,
        address: *const Address,
        out: *mut PointerInfo,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's address.
        let base = unsafe { address.read() };
        let info = PointerInfo {
            kind: MemoryKind::DEVICE,
            base,
            size: u64::MAX,
            allocation_id: 1,
            ..PointerInfo::default()
        };
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(info) };
        Status::OK
    }
    let report = report_of(|table| table.pointer_query = Some(claims));
    finds(&report, "memory_of_others_is_unowned");
    finds(&report, "an_allocation_id_is_never_reused");
}

#[test]
fn a_fill_that_does_nothing_is_found() {
    unsafe extern "C" fn idle(
        _: PluginHandle,
        _: *const crossdock_sdk::abi::FillArgs,
        _: StreamHandle,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let report = report_of(|table| table.fill = group(FillHooks { fill: Some(idle) }));
    finds(&report, "a_fill_repeats_its_pattern");
}

#[test]
fn a_stream_that_waits_for_nothing_is_found() {
    unsafe extern "C" fn ignores(
        _: PluginHandle,
        _: StreamHandle,
        _: EventHandle,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let report = report_of(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let streams = unsafe { table.streams.as_ptr().read() };
        table.streams = group(StreamHooks {
            stream_wait_event: Some(ignores),
            ..streams
        });
    });
    // The other cases see it too, unless the copies take longer than their limits.
    finds(&report, "a_failure_of_the_host_reaches_those_who_wait");
}

#[test]
fn an_event_whose_destruction_wakes_nobody_is_found() {
    unsafe extern "C" fn forgets(_: PluginHandle, _: EventHandle, _: ErrorOut) -> Status {
        Status::OK
    }
    let case = "a_host_event_destroyed_while_pending_fails_those_who_wait";
    let change = with_streams(|streams| streams.event_destroy = Some(forgets));
    finds(&report_of_case(case, change), case);
}

#[test]
fn a_plugin_that_is_closed_and_wakes_nobody_is_found() {
    unsafe extern "C" fn stays(_: PluginHandle, _: ErrorOut) -> Status {
        Status::OK
    }
    for case in [
        "a_closed_plugin_fails_the_host_events_that_are_pending",
        "a_closed_plugin_has_no_work_left",
    ] {
        finds(
            &report_of_case(case, |table| table.close = Some(stays)),
            case,
        );
    }
}

#[test]
fn an_event_that_is_destroyed_as_if_it_had_happened_is_found() {
    unsafe extern "C" fn completes(
        plugin: PluginHandle,
        event: EventHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let hooks = unsafe { sound().host_events.as_ptr().read() };
        // SAFETY: the caller's arguments; a refusal makes an error object that nobody looks at.
        let _late = unsafe {
            hooks.event_complete.unwrap()(plugin, event, Status::OK, std::ptr::null_mut())
        };
        // SAFETY: the caller's arguments.
        unsafe { sound_streams().event_destroy.unwrap()(plugin, event, error) }
    }
    let case = "a_host_event_destroyed_while_pending_fails_those_who_wait";
    let change = with_streams(|streams| streams.event_destroy = Some(completes));
    finds(&report_of_case(case, change), case);
}

#[test]
fn an_event_that_tells_of_its_failure_once_is_found() {
    static TOLD: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    unsafe extern "C" fn once(
        plugin: PluginHandle,
        event: EventHandle,
        timeout_ns: u64,
        _: ErrorOut,
    ) -> Status {
        let wait = sound_streams().event_synchronize.unwrap();
        // SAFETY: the caller's arguments, and no error object.
        let status = unsafe { wait(plugin, event, timeout_ns, std::ptr::null_mut()) };
        if !status.is_failure_of_work() || TOLD.lock().unwrap().insert(event.raw()) {
            return status;
        }
        Status::OK
    }
    let case = "a_failure_of_work_stays_on_its_event_and_the_stream_goes_on";
    let change = with_streams(|streams| streams.event_synchronize = Some(once));
    finds(&report_of_case(case, change), case);
}

#[test]
fn a_stream_that_tells_of_its_failure_twice_is_found_and_named() {
    static TOLD: Mutex<BTreeMap<u64, Status>> = Mutex::new(BTreeMap::new());
    unsafe extern "C" fn twice(
        plugin: PluginHandle,
        stream: StreamHandle,
        timeout_ns: u64,
        _: ErrorOut,
    ) -> Status {
        let wait = sound_streams().stream_synchronize.unwrap();
        // SAFETY: the caller's arguments, and no error object.
        let status = unsafe { wait(plugin, stream, timeout_ns, std::ptr::null_mut()) };
        if status.is_failure_of_work() {
            TOLD.lock().unwrap().insert(stream.raw(), status);
            return status;
        }
        let told = TOLD.lock().unwrap().remove(&stream.raw());
        told.unwrap_or(status)
    }
    let case = "a_failure_from_before_the_wait_is_seen_once";
    let change = with_streams(|streams| streams.stream_synchronize = Some(twice));
    let report = report_of_case(case, change);
    finds(&report, case);
    let said = report.to_string();
    assert!(
        said.contains("again, after it told of the failure"),
        "{said}"
    );
}

#[test]
fn a_failure_of_work_by_a_status_that_says_nothing_is_found() {
    unsafe extern "C" fn evades(
        plugin: PluginHandle,
        event: EventHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { sound_streams().event_query.unwrap()(plugin, event, error) };
        match status {
            Status::VENDOR => Status::INVALID,
            other => other,
        }
    }
    let case = "only_three_statuses_say_that_work_failed";
    let change = with_streams(|streams| streams.event_query = Some(evades));
    finds(&report_of_case(case, change), case);
}

#[test]
fn a_name_without_an_end_is_found() {
    unsafe extern "C" fn endless(
        plugin: PluginHandle,
        device: u32,
        out: *mut DeviceInfo,
        error: ErrorOut,
    ) -> Status {
        let device_info = sound().device_info.unwrap();
        // SAFETY: the caller's arguments.
        let status = unsafe { device_info(plugin, device, out, error) };
        if status.is_ok() {
            // SAFETY: the hook succeeded, so `out` holds a description.
            unsafe { (*out).name = [b'x'; 128] };
        }
        status
    }
    let report = report_of(|table| table.device_info = Some(endless));
    finds(&report, "every_text_of_a_device_is_terminated_utf8");
}

/// The sound plugin's host calls.
fn sound_host_calls() -> HostCallHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().host_calls.as_ptr().read() }
}

#[test]
fn a_host_function_that_runs_twice_is_found() {
    unsafe extern "C" fn twice(
        plugin: PluginHandle,
        stream: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
        error: ErrorOut,
    ) -> Status {
        let call = sound_host_calls().stream_host_call.unwrap();
        // SAFETY: the caller's arguments; the suite's function may run any number of times.
        let _first = unsafe { call(plugin, stream, function, word, error) };
        // SAFETY: as above.
        unsafe { call(plugin, stream, function, word, error) }
    }
    let report = report_of(|table| {
        table.host_calls = group(HostCallHooks {
            stream_host_call: Some(twice),
        });
    });
    finds(&report, "a_host_function_runs_exactly_once");
}

#[test]
fn a_host_function_that_runs_at_once_is_found() {
    unsafe extern "C" fn early(
        _: PluginHandle,
        _: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
        _: ErrorOut,
    ) -> Status {
        if let HostFunction(Some(function)) = function {
            // SAFETY: the suite's function may run with its word on any thread.
            unsafe { function(word) };
        }
        Status::OK
    }
    let report = report_of(|table| {
        table.host_calls = group(HostCallHooks {
            stream_host_call: Some(early),
        });
    });
    finds(&report, "a_host_function_runs_when_the_stream_reaches_it");
    finds(&report, "a_host_function_on_a_destroyed_stream_never_runs");
}

#[test]
fn an_adoption_that_writes_into_read_only_memory_is_found() {
    unsafe extern "C" fn writes(
        plugin: PluginHandle,
        device: u32,
        foreign: *const Address,
        kind: MemoryKind,
        size: u64,
        flags: AdoptFlags,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let sound = unsafe { sound().adopt.as_ptr().read() }.adopt.unwrap();
        if flags.contains(AdoptFlags::READ_ONLY) {
            // SAFETY: the suite gives an address.
            let word = unsafe { foreign.read() }.word;
            let byte = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(word).unwrap());
            // SAFETY: the suite adopts bytes of its own.
            let changed = unsafe { byte.read() } ^ 1;
            // SAFETY: as above.
            unsafe { byte.write(changed) };
        }
        // SAFETY: the call is handed on.
        unsafe { sound(plugin, device, foreign, kind, size, flags, out, error) }
    }
    let report = report_of(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let adopt = unsafe { table.adopt.as_ptr().read() };
        table.adopt = group(AdoptHooks {
            adopt: Some(writes),
            ..adopt
        });
    });
    finds(
        &report,
        "host_memory_that_is_adopted_read_only_is_read_and_stays_as_it_is",
    );
}

#[test]
fn a_copy_that_takes_the_first_address_of_adopted_memory_for_the_other_end_is_found() {
    static FIRST: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn notes(
        plugin: PluginHandle,
        device: u32,
        foreign: *const Address,
        kind: MemoryKind,
        size: u64,
        flags: AdoptFlags,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the suite gives an address.
        FIRST.store(unsafe { foreign.read() }.word, Ordering::SeqCst);
        // SAFETY: the sound plugin's group is a constant.
        let sound = unsafe { sound().adopt.as_ptr().read() }.adopt.unwrap();
        // SAFETY: the call is handed on.
        unsafe { sound(plugin, device, foreign, kind, size, flags, out, error) }
    }
    unsafe extern "C" fn takes(
        plugin: PluginHandle,
        args: *const CopyArgs,
        stream: StreamHandle,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let ends = unsafe { args.read() };
        let is_first = |side: Side| {
            side.kind == MemoryKind::HOST
                && side.address.as_pointer() == Some(FIRST.load(Ordering::SeqCst))
        };
        if is_first(ends.dst) || is_first(ends.src) {
            return Status::OK;
        }
        // SAFETY: the call is handed on.
        unsafe { sound().copy.unwrap()(plugin, args, stream, error) }
    }
    let case = "a_copy_inside_adopted_memory_is_made_whichever_end_is_called_the_hosts";
    let report = report_of_case(case, |table| {
        // SAFETY: the sound plugin's group is a constant.
        let adopt = unsafe { table.adopt.as_ptr().read() };
        table.adopt = group(AdoptHooks {
            adopt: Some(notes),
            ..adopt
        });
        table.copy = Some(takes);
    });
    finds(&report, case);
}

#[test]
fn a_registration_that_takes_and_ends_anything_is_found() {
    unsafe extern "C" fn takes(
        _: PluginHandle,
        _: u32,
        _: *mut c_void,
        _: u64,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    unsafe extern "C" fn ends(_: PluginHandle, _: u32, _: *mut c_void, _: ErrorOut) -> Status {
        Status::OK
    }
    let report = report_of(|table| {
        table.register = group(RegisterHooks {
            register_host: Some(takes),
            unregister_host: Some(ends),
        });
    });
    finds(&report, "registrations_do_not_overlap");
    finds(&report, "what_was_not_registered_is_not_unregistered");
    finds(&report, "registered_memory_is_known_as_foreign");
}

#[test]
fn an_unregistration_that_ends_what_was_adopted_is_found() {
    static ADOPTED: Mutex<Vec<Address>> = Mutex::new(Vec::new());
    unsafe extern "C" fn notes(
        plugin: PluginHandle,
        device: u32,
        foreign: *const Address,
        kind: MemoryKind,
        size: u64,
        flags: AdoptFlags,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let sound = unsafe { sound().adopt.as_ptr().read() }.adopt.unwrap();
        // SAFETY: the call is handed on.
        let status = unsafe { sound(plugin, device, foreign, kind, size, flags, out, error) };
        // SAFETY: the caller's room for the answer, which the sound plugin gave.
        ADOPTED.lock().unwrap().push(unsafe { out.read() });
        status
    }
    unsafe extern "C" fn ends(
        plugin: PluginHandle,
        device: u32,
        pointer: *mut c_void,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the sound plugin's group is a constant.
        let adopt = unsafe { sound().adopt.as_ptr().read() };
        for adopted in ADOPTED.lock().unwrap().drain(..) {
            let none = std::ptr::null_mut();
            // SAFETY: an address that the sound plugin gave, and no room for an error.
            unsafe { adopt.release_adopted.unwrap()(plugin, device, &raw const adopted, none) };
        }
        // SAFETY: as above.
        let register = unsafe { sound().register.as_ptr().read() };
        // SAFETY: the call is handed on.
        unsafe { register.unregister_host.unwrap()(plugin, device, pointer, error) }
    }
    let case = "what_was_adopted_of_registered_memory_stays_adopted";
    let report = report_of_case(case, |table| {
        // SAFETY: the sound plugin's group is a constant.
        let (adopt, register) = unsafe { (table.adopt.as_ptr().read(), table.register.as_ptr()) };
        table.adopt = group(AdoptHooks {
            adopt: Some(notes),
            ..adopt
        });
        table.register = group(RegisterHooks {
            unregister_host: Some(ends),
            // SAFETY: as above.
            ..unsafe { register.read() }
        });
    });
    finds(&report, case);
}

#[test]
fn a_free_on_a_stream_that_takes_anything_is_found() {
    unsafe extern "C" fn trusting(
        _: PluginHandle,
        _: StreamHandle,
        _: *const Address,
        _: ErrorOut,
    ) -> Status {
        Status::OK
    }
    let report = report_of(|table| {
        // SAFETY: the sound plugin's group is a constant.
        let async_memory = unsafe { table.async_memory.as_ptr().read() };
        table.async_memory = group(AsyncMemoryHooks {
            free_async: Some(trusting),
            ..async_memory
        });
    });
    finds(&report, "a_free_on_a_stream_refuses_memory_of_others");
    finds(&report, "memory_freed_on_a_stream_is_not_answered_for");
}

#[test]
fn an_attribute_for_every_key_is_found() {
    unsafe extern "C" fn knows(
        _: PluginHandle,
        _: u32,
        _: u32,
        out: *mut u64,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(1) };
        Status::OK
    }
    let report = report_of(|table| {
        table.attributes = group(AttributeHooks {
            device_attribute: Some(knows),
        });
    });
    finds(&report, "an_unknown_attribute_is_unsupported");
    finds(
        &report,
        "no_attribute_is_told_of_a_device_that_is_not_there",
    );
}
