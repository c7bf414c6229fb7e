//! Functions for tests, which look for them by name: a program that finds `crossdock_sim_version` runs on
//! simulated devices.
#![expect(unsafe_code, reason = "functions for programs in C")]

use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

use crossdock_sim_engine::Site;

use crate::at_exit;
use crate::callers;
use crate::cuda;
use crate::fence::fence;
use crate::process::Process;
use crate::refused;
use crate::settings::{self, Settings};

/// The version of these functions.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_version() -> c_int {
    1
}

/// Number of reports so far; -1 where there is no simulator.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_reports() -> i64 {
    with(|process| process.engine.reports().len()).unwrap_or(-1)
}

/// Writes the reports so far into `text`, one object of JSON a line, and forgets them. At most `size` bytes with
/// the final NUL; the number of bytes that all of them need is answered, and nothing is forgotten where they do
/// not fit.
///
/// # Safety
/// `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_take_reports(text: *mut c_char, size: usize) -> i64 {
    let take = |process: &Process| {
        // What was taken is no more to be found, whatever ends the process.
        let mut journal = process.journal.pages();
        let reports = process.engine.reports();
        let lines = reports.iter().map(at_exit::json);
        // SAFETY: the caller vouches for the bytes.
        let (needed, fits) = unsafe { write_lines(lines, text, size) };
        if fits {
            process.engine.take_reports();
            journal.forget();
        }
        needed
    };
    with(take).unwrap_or(-1)
}

/// As [`crossdock_sim_take_reports`], for the calls that waited for all work of a device (frees too), oldest first.
///
/// # Safety
/// `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_take_waits(text: *mut c_char, size: usize) -> i64 {
    let take = |process: &Process| {
        let mut waits = process.waits();
        let lines = waits.iter().map(|wait| at_exit::call(*wait));
        // SAFETY: the caller vouches for the bytes.
        let (needed, fits) = unsafe { write_lines(lines, text, size) };
        if fits {
            waits.clear();
        }
        needed
    };
    with(take).unwrap_or(-1)
}

/// The same of how often each function of the driver was called, as `{"function": NAME, "calls": N}`.
///
/// # Safety
/// `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_take_calls(text: *mut c_char, size: usize) -> i64 {
    let take = |process: &Process| {
        let mut calls = process.calls();
        let lines = calls
            .iter()
            .map(|(name, calls)| serde_json::json!({ "function": name, "calls": calls }));
        // SAFETY: the caller vouches for the bytes.
        let (needed, fits) = unsafe { write_lines(lines, text, size) };
        if fits {
            calls.clear();
        }
        needed
    };
    with(take).unwrap_or(-1)
}

/// The same of each link that was used since it was asked last, as `{"from": "host", "to": 0, "operations": N,
/// "bytes": N, "busy_ns": N, "first_ns": N, "last_ns": N}`: how much went over it, how long it was busy, and when the
/// first operation began and the last one ended. Bytes that stay on the host name the `device` of their stream too.
///
/// # Safety
/// `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_take_links(text: *mut c_char, size: usize) -> i64 {
    let take = |process: &Process| {
        let uses = process.engine.link_uses();
        let lines = uses.iter().map(at_exit::link);
        // SAFETY: the caller vouches for the bytes.
        let (needed, fits) = unsafe { write_lines(lines, text, size) };
        if fits {
            process.engine.take_link_uses();
        }
        needed
    };
    with(take).unwrap_or(-1)
}

/// The same of calls that are not simulated, as `{"call": {"function": NAME, ..}, "answer": CODE, "times": N}`.
///
/// # Safety
/// `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_take_refused(text: *mut c_char, size: usize) -> i64 {
    let take = || {
        let mut calls = refused::calls();
        // SAFETY: the caller vouches for the bytes.
        let (needed, fits) = unsafe { write_lines(calls.values().map(refused::json), text, size) };
        if fits {
            calls.clear();
        }
        i64::try_from(needed).ok()
    };
    fence(take).flatten().unwrap_or(-1)
}

/// The same of words of `CROSSDOCK_SIM`, as `{"why": TEXT}` where one is not understood, and nothing where all are. It
/// begins no driver, and is for whoever starts programs over the simulator.
///
/// # Safety
/// `words` is a C string, and `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_refuse_words(
    words: *const c_char,
    text: *mut c_char,
    size: usize,
) -> i64 {
    let take = || {
        // SAFETY: the caller vouches for the string.
        let words = unsafe { CStr::from_ptr(words) }.to_string_lossy();
        let why = Settings::parse(&words).err();
        let lines = why.iter().map(|why| serde_json::json!({ "why": why }));
        // SAFETY: the caller vouches for the bytes.
        let (needed, _) = unsafe { write_lines(lines, text, size) };
        i64::try_from(needed).ok()
    };
    fence(take).flatten().unwrap_or(-1)
}

/// Lets one call do nothing and say that it worked, as if the program did not make it: the `nth` of `function` that
/// this thread makes from now on, counted from 1; 0: none. A test that leaves out each wait of a program sees which of
/// them it needs. Answers 1 where the call that was named before is still to come, which it is no longer then; 0
/// where there is none; -1 where there is no simulator.
///
/// # Safety
/// `function` is a text that ends with NUL.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_drop_call(function: *const c_char, nth: u64) -> i64 {
    // SAFETY: the caller vouches for the text.
    let function = unsafe { CStr::from_ptr(function) }.to_string_lossy();
    with(|process| usize::from(process.drop_call(&function, nth))).unwrap_or(-1)
}

/// Writes values line by line where they fit: how many bytes they need with the final NUL, and whether they do.
///
/// # Safety
/// `text` is valid for `size` bytes.
unsafe fn write_lines(
    values: impl Iterator<Item = serde_json::Value>,
    text: *mut c_char,
    size: usize,
) -> (usize, bool) {
    let lines: String = values.map(|value| format!("{value}\n")).collect();
    let needed = lines.len() + 1;
    let fits = needed <= size && !text.is_null();
    if fits {
        // SAFETY: the caller vouches for the bytes, and they are no memory of ours.
        unsafe { text.copy_from_nonoverlapping(lines.as_ptr().cast(), lines.len()) };
        // SAFETY: inside of the same bytes.
        let end = unsafe { text.add(lines.len()) };
        // SAFETY: as for the text before it.
        unsafe { end.write(0) };
    }
    (needed, fits)
}

/// Number of allocations, registrations, streams and events that are left; -1 where there is no simulator.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_leaks() -> i64 {
    with(|process| process.engine.leaks().len()).unwrap_or(-1)
}

/// Number of calls that waited for all work of a device, frees included, since
/// [`crossdock_sim_take_waits`] emptied the list; -1 where there is no simulator.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_device_waits() -> i64 {
    with(|process| process.waits().len()).unwrap_or(-1)
}

/// What is left, one object of JSON a line, as [`crossdock_sim_take_reports`] writes; nothing is forgotten.
///
/// # Safety
/// `text` is valid for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_list_leaks(text: *mut c_char, size: usize) -> i64 {
    let list = |process: &Process| {
        let leaks = process.engine.leaks();
        // SAFETY: the caller vouches for the bytes.
        let (needed, _) = unsafe { write_lines(leaks.iter().map(at_exit::json), text, size) };
        needed
    };
    with(list).unwrap_or(-1)
}

/// Adds faults, in the words of the setting `fault`; they count from now on. 0; -1 where a word is not understood,
/// and nothing is added.
///
/// # Safety
/// `faults` is a C string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn crossdock_sim_arm(faults: *const c_char) -> i64 {
    // SAFETY: the caller vouches for the text.
    let text = unsafe { CStr::from_ptr(faults) };
    let faults = text.to_str().ok().and_then(settings::faults);
    let arm = |process: &Process| {
        let faults = faults?;
        faults
            .into_iter()
            .for_each(|fault| process.engine.inject(fault));
        Some(0)
    };
    let armed = fence(|| arm(Process::get().ok()?));
    armed.flatten().unwrap_or(-1)
}

/// Whether a device is lost: the number of its failure, or 0.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_lost(device: u32) -> c_int {
    let lost = || Process::get().ok()?.engine.lost(device);
    fence(lost).flatten().map_or(0, |failure| failure.status)
}

/// Removes all faults, and answers how many calls they made fail since this was called last; -1 where there is no
/// simulator. Lost devices stay lost.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_disarm() -> i64 {
    let disarm = || Process::get().ok().map(|process| process.engine.disarm());
    let struck = fence(disarm).flatten();
    struck
        .and_then(|struck| i64::try_from(struck).ok())
        .unwrap_or(-1)
}

/// Gives lost devices back as another process would find them: nothing is left of what they had. Removes all faults
/// too, if a device was lost; else it does nothing.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_give_back() {
    fence(|| Process::get().map(cuda::give_back));
}

/// Lets all work end, waiting up to two seconds for what host code holds up, and begins the choices of the policy
/// `seeded` and of faults anew, as a process with this seed does: one process then runs many tests, each as if by
/// itself. How many operations are left, which is 0 unless something holds them up; -1 where no function of a
/// driver was called in this process so far: then the first one goes by `CROSSDOCK_SIM`, as ever.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_seed(seed: u64) -> i64 {
    let begin_anew = |process: &Process| {
        // What is left is counted.
        let _ended = process.engine.drain(DRAIN);
        process.engine.reseed(seed);
        process.engine.pending()
    };
    ask(Process::made(), begin_anew).unwrap_or(-1)
}

/// How long tests wait for work that host code holds up.
const DRAIN: Duration = Duration::from_secs(2);

/// Number of operations that were submitted and are not over; -1 where no function of a driver was called in this
/// process so far. In contrast to other functions here it begins nothing.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_pending() -> i64 {
    ask(Process::made(), |process| process.engine.pending()).unwrap_or(-1)
}

/// Runs up to `operations` that can run, whatever the policy, and says how many ran.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_progress(operations: usize) -> i64 {
    with(|process| process.engine.progress(operations)).unwrap_or(-1)
}

/// Tells the checker that host code reads (`writes` is 0) or writes bytes: no driver sees a load or store of pinned
/// memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crossdock_sim_touch(address: u64, bytes: u64, writes: c_int) {
    let access = if writes == 0 {
        crossdock_sim_engine::Access::Read
    } else {
        crossdock_sim_engine::Access::Write
    };
    with(|process| {
        process.engine.touch(
            Site::new("host code").by(callers::here()),
            address,
            bytes,
            access,
        );
        0
    });
}

fn with(question: impl FnOnce(&Process) -> usize) -> Option<i64> {
    ask(fence(|| Process::get().ok()).flatten(), question)
}

/// Asks a process that is no child of a fork.
fn ask(process: Option<&'static Process>, question: impl FnOnce(&Process) -> usize) -> Option<i64> {
    let process = process.filter(|process| !process.is_forked())?;
    let answer = fence(|| question(process))?;
    fence(|| process.journal.note(process));
    i64::try_from(answer).ok()
}
