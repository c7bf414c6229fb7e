//! The suite on plugins whose cached memory is counted or given back with one fault each.
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

use std::ptr::null_mut;
use std::sync::Mutex;

use crossdock_sdk::abi::{
    Address, AllocateArgs, MemoryKind, MemoryUsage, PluginHandle, PoolHooks, Status, StreamHandle,
};

use faulty::{ErrorOut, group, sound};
use streams::{sound_streams, with_streams};
use suite::{finds, report_of_case};

fn sound_pool() -> PoolHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().pool.as_ptr().read() }
}

/// Demands that a case finds a fault of the group.
fn is_found_by(case: &str, fault: impl FnOnce(&mut PoolHooks)) {
    let report = report_of_case(case, |table| {
        let mut pool = sound_pool();
        fault(&mut pool);
        table.pool = group(pool);
    });
    finds(&report, case);
}

fn trim(plugin: PluginHandle, device: u32, keep: u64, error: ErrorOut) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { sound_pool().memory_trim.unwrap()(plugin, device, keep, error) }
}

/// The sound answer, changed.
fn usage(
    (plugin, device): (PluginHandle, u32),
    out: *mut MemoryUsage,
    error: ErrorOut,
    change: impl FnOnce(&mut MemoryUsage),
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { sound_pool().memory_usage.unwrap()(plugin, device, out, error) };
    if status.is_ok() {
        // SAFETY: the hook wrote the answer, which is the caller's.
        change(unsafe { &mut *out });
    }
    status
}

/// Makes a hook that answers the sound usage, changed.
macro_rules! counts {
    ($name:ident: $change:expr) => {
        unsafe extern "C" fn $name(
            plugin: PluginHandle,
            device: u32,
            out: *mut MemoryUsage,
            error: ErrorOut,
        ) -> Status {
            usage((plugin, device), out, error, $change)
        }
    };
}

#[test]
fn an_allocation_that_is_not_counted_is_found() {
    counts!(blind: |usage| usage.used = 0);
    is_found_by("usage_counts_an_allocation_and_its_end", |pool| {
        pool.memory_usage = Some(blind);
    });
}

#[test]
fn freed_memory_that_counts_as_used_is_found() {
    counts!(all: |usage| usage.used = usage.peak_used);
    is_found_by("usage_counts_an_allocation_and_its_end", |pool| {
        pool.memory_usage = Some(all);
    });
}

#[test]
fn cached_memory_that_counts_alone_is_found() {
    counts!(apart: |usage| usage.reserved -= usage.used);
    is_found_by("what_is_used_is_reserved_and_below_its_peak", |pool| {
        pool.memory_usage = Some(apart);
    });
}

#[test]
fn peaks_that_are_what_is_used_now_are_found() {
    counts!(now: |usage| usage.peak_used = usage.used);
    is_found_by("peaks_keep_the_most_and_begin_anew", |pool| {
        pool.memory_usage = Some(now);
    });
}

#[test]
fn peaks_that_never_begin_anew_are_found() {
    unsafe extern "C" fn nothing(_: PluginHandle, _: u32, _: ErrorOut) -> Status {
        Status::OK
    }
    is_found_by("peaks_keep_the_most_and_begin_anew", |pool| {
        pool.memory_reset_peaks = Some(nothing);
    });
}

#[test]
fn a_trim_that_gives_nothing_back_is_found() {
    unsafe extern "C" fn nothing(_: PluginHandle, _: u32, _: u64, _: ErrorOut) -> Status {
        Status::OK
    }
    let case = "a_trim_leaves_no_more_cached_memory_than_it_may";
    is_found_by(case, |pool| pool.memory_trim = Some(nothing));
}

#[test]
fn a_trim_that_gives_everything_back_is_found() {
    unsafe extern "C" fn all(p: PluginHandle, device: u32, _: u64, error: ErrorOut) -> Status {
        trim(p, device, 0, error)
    }
    let case = "a_trim_takes_no_more_than_it_has_to";
    is_found_by(case, |pool| pool.memory_trim = Some(all));
}

/// What the suite allocated last, for a trim that takes it.
static LAST: Mutex<Option<Address>> = Mutex::new(None);

#[test]
fn a_trim_that_takes_allocated_memory_is_found() {
    unsafe extern "C" fn notes(
        plugin: PluginHandle,
        args: *const AllocateArgs,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { sound().allocate.unwrap()(plugin, args, out, error) };
        let mut last = LAST.lock().unwrap();
        if status.is_ok() && last.is_none() {
            // SAFETY: the hook wrote the answer.
            *last = Some(unsafe { out.read() });
        }
        status
    }
    unsafe extern "C" fn takes(
        plugin: PluginHandle,
        device: u32,
        keep: u64,
        error: ErrorOut,
    ) -> Status {
        let last = LAST.lock().unwrap().take();
        if let Some(address) = last {
            // SAFETY: no work uses it.
            let _freed = unsafe {
                sound().free.unwrap()(plugin, &raw const address, MemoryKind::DEVICE, null_mut())
            };
        }
        trim(plugin, device, keep, error)
    }
    let case = "a_trim_leaves_allocated_memory_as_it_is";
    let report = report_of_case(case, |table| {
        let mut pool = sound_pool();
        pool.memory_trim = Some(takes);
        table.pool = group(pool);
        table.allocate = Some(notes);
    });
    finds(&report, case);
}

/// The stream of the work that a trim must not wait for.
static STREAM: Mutex<Option<StreamHandle>> = Mutex::new(None);

#[test]
fn a_trim_that_waits_for_work_is_found() {
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
    unsafe extern "C" fn waits(plugin: PluginHandle, _: u32, _: u64, error: ErrorOut) -> Status {
        let stream = STREAM.lock().unwrap().unwrap();
        let wait = sound_streams().stream_synchronize.unwrap();
        // SAFETY: a live stream; the limit keeps the test from waiting for itself.
        unsafe { wait(plugin, stream, 20_000_000, error) }
    }
    let case = "a_trim_waits_for_no_work";
    let report = report_of_case(case, |table| {
        with_streams(|streams| streams.stream_create = Some(notes))(table);
        let mut pool = sound_pool();
        pool.memory_trim = Some(waits);
        table.pool = group(pool);
    });
    finds(&report, case);
}

#[test]
fn a_device_that_is_not_there_and_counts_is_found() {
    unsafe extern "C" fn any(
        plugin: PluginHandle,
        _: u32,
        out: *mut MemoryUsage,
        error: ErrorOut,
    ) -> Status {
        usage((plugin, 0), out, error, |_| {})
    }
    let case = "no_memory_is_counted_of_a_device_that_is_not_there";
    is_found_by(case, |pool| pool.memory_usage = Some(any));
}
