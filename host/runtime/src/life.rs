//! The life of the process: whether it is exiting, and whether it is a fork.
#![expect(unsafe_code, reason = "registers C callbacks for exit and fork")]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossdock_sdk::abi::Status;
use crossdock_sdk::fence::fence;

use crate::error::Error;
use crate::opened;

static EXITING: AtomicBool = AtomicBool::new(false);
static FORKS: AtomicU32 = AtomicU32::new(0);
static LEAKS: AtomicU64 = AtomicU64::new(0);

/// Whether the process has begun to exit: from then on frees become counted leaks.
#[must_use]
#[inline]
pub fn exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// How many frees were left out because the process was exiting, or is a fork.
#[must_use]
pub fn counted_leaks() -> u64 {
    LEAKS.load(Ordering::Relaxed)
}

/// How often this process was forked off since the first runtime: a handle of another generation
/// belongs to the parent.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Acquire)
}

/// Whether a hook was not called because the process exits or is a fork; what it would have given
/// back is a counted leak.
pub(crate) fn is_over(error: &Error) -> bool {
    matches!(error.status(), Some(Status::EXITING | Status::FORKED))
}

pub(crate) fn count_leak() {
    LEAKS.fetch_add(1, Ordering::Relaxed);
}

/// Watches for exit and fork, once a process.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        watch_exit();
        // SAFETY: `in_child` takes nothing, takes no lock, and calls only what a plugin promises to
        // be able to do in a child.
        let fork = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if fork != 0 {
            log::warn!(target: "crossdock::load", "forks will not be noticed");
        }
    });
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
    let begun = EXITING.swap(true, Ordering::AcqRel);
    if !begun {
        let _caught = fence(opened::tell_exit);
        let _caught = fence(crate::trace::finish);
    }
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::AcqRel);
    let _caught = fence(opened::tell_fork);
}
