//! The life of the process: whether it is exiting, and whether it is a fork.
#![expect(unsafe_code, reason = "registers C callbacks for exit and fork")]

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossdock_layers::trace_file;
use crossdock_sdk::abi::Status;
use crossdock_sdk::fence::fence;

use crate::error::Error;
use crate::process::late_log;

/// How often this process was forked off, and [`EXITS`]: one word, because each hook call looks at both.
static STATE: AtomicU32 = AtomicU32::new(0);
const EXITS: u32 = 1 << 31;
/// The process that last began to watch for forks, or came out of one.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static LEAKS: AtomicU64 = AtomicU64::new(0);
/// What runs code of others and is to be over before the exit: releases, and looks at plugins.
static DELAYS: AtomicU32 = AtomicU32::new(0);

/// Who is told of the exit, and in the child of a fork: the open plugins.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) exit: fn(),
    pub(crate) fork: fn(),
}

static TOLD: OnceLock<Told> = OnceLock::new();

/// Has them told, from the first call on.
pub(crate) fn tell(told: Told) {
    let _once = TOLD.set(told);
}

fn told(tell: impl FnOnce(&Told)) {
    if let Some(told) = TOLD.get() {
        tell(told);
    }
}

thread_local! {
    /// How many of them this thread is inside of, one nested in the other.
    static DELAYS_HERE: Cell<u32> = const { Cell::new(0) };
}

/// How long the exit of the process waits for releases and looks that have begun.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// Whether the process has begun to exit: from then on frees become counted leaks.
#[must_use]
#[inline]
pub fn exiting() -> bool {
    state() & EXITS != 0
}

/// How many things were leaked and not given back: because the process was exiting, because it is a
/// fork, because nobody could say whether work still used them, or because a plugin did not let go of
/// them.
#[must_use]
pub fn counted_leaks() -> u64 {
    LEAKS.load(Ordering::Relaxed)
}

/// How often this process was forked off since the first runtime: a handle of another generation
/// belongs to the parent.
#[inline]
pub(crate) fn generation() -> u32 {
    state() & !EXITS
}

/// The same number in a process that does not exit, and another one in a process that does.
#[inline]
pub(crate) fn state() -> u32 {
    STATE.load(Ordering::Acquire)
}

/// Whether a hook was not called because the process exits or is a fork; what it would have given
/// back is a counted leak.
pub(crate) fn is_exit_or_fork(error: &Error) -> bool {
    matches!(error.status(), Some(Status::EXITING | Status::FORKED))
}

/// Leaks something and counts it: a rare end, so it is out of line.
#[cold]
pub(crate) fn leak<T>(kept: T) {
    let _leaked = ManuallyDrop::new(kept);
    count_leak();
}

pub(crate) fn count_leak() {
    LEAKS.fetch_add(1, Ordering::Relaxed);
}

/// An exit that begins meanwhile waits until this is dropped.
#[derive(Debug)]
pub(crate) struct ExitDelay(());

#[inline]
pub(crate) fn delay_exit() -> ExitDelay {
    DELAYS.fetch_add(1, Ordering::SeqCst);
    // One look for the thread's place, which in a library is a call.
    DELAYS_HERE.with(|here| here.set(here.get().wrapping_add(1)));
    ExitDelay(())
}

impl Drop for ExitDelay {
    #[inline]
    fn drop(&mut self) {
        DELAYS_HERE.with(|here| here.set(here.get().wrapping_sub(1)));
        DELAYS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Begins to give something back; `None` once the process exits.
#[inline]
pub(crate) fn begin_release() -> Option<ExitDelay> {
    let delay = delay_exit();
    // After the count went up: either this sees the exit, or the exit sees the count.
    (STATE.load(Ordering::SeqCst) & EXITS == 0).then_some(delay)
}

/// Whether this thread is giving something back, or looking at a plugin.
pub(crate) fn is_releasing() -> bool {
    DELAYS_HERE.get() > 0
}

/// Watches for exit and fork. Two threads that are the first may both do so, which is no harm: in a
/// child, a thread that it does not have could leave it waiting for ever.
///
/// A fork that had begun before the first call tells its child nothing: glibc calls what was registered when
/// a fork began. So each later call looks for one.
pub(crate) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.load(Ordering::Acquire) {
        came_out_of_fork();
        return;
    }
    PROCESS.store(std::process::id(), Ordering::Release);
    watch_exit();
    // SAFETY: `in_child` takes nothing, takes no lock, and calls only what a plugin promises to be
    // able to do in a child.
    let fork = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if fork != 0 {
        log::warn!(target: "crossdock::load", "forks will not be noticed");
    }
    IS_WATCHED.store(true, Ordering::Release);
}

/// Puts our notice of exit in front of every destructor that is registered by now: the latest
/// registered runs first.
pub(crate) fn watch_exit() {
    // SAFETY: `at_exit` takes nothing and does its work once, however often it is registered.
    let exit = unsafe { libc::atexit(at_exit) };
    if exit != 0 {
        log::warn!(target: "crossdock::load", "the exit of the process will not be noticed");
    }
}

extern "C" fn at_exit() {
    let before = STATE.fetch_or(EXITS, Ordering::SeqCst);
    if before & EXITS == 0 {
        wait_for_delays();
        let _caught = fence(|| told(|told| (told.exit)()));
        let _caught = fence(|| {
            if let Some(failure) = trace_file::finish() {
                late_log::keep("crossdock::load", &failure);
            }
        });
    }
}

/// Waits for the releases and looks that began before the exit did, but those that this thread is inside of.
fn wait_for_delays() {
    let end = Instant::now() + EXIT_PATIENCE;
    while DELAYS.load(Ordering::SeqCst) > DELAYS_HERE.get() && Instant::now() < end {
        std::thread::yield_now();
    }
}

unsafe extern "C" fn in_child() {
    let _caught = fence(came_out_of_fork);
}

/// Begins the life of a child, once, where this process is one.
fn came_out_of_fork() {
    let process = std::process::id();
    if PROCESS.swap(process, Ordering::AcqRel) == process {
        return;
    }
    STATE.fetch_add(1, Ordering::AcqRel);
    // The child has no other thread.
    DELAYS.store(DELAYS_HERE.get(), Ordering::SeqCst);
    told(|told| (told.fork)());
}
