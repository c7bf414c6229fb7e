//! The life of the process: whether it is exiting, and whether it is a fork.
#![expect(unsafe_code, reason = "registers C callbacks for exit and fork")]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossdock_sdk::fence::fence;

static EXITING: AtomicBool = AtomicBool::new(false);
static FORKS: AtomicU32 = AtomicU32::new(0);
static LEAKS: AtomicU64 = AtomicU64::new(0);

/// Whether the process has begun to exit: from then on frees become counted leaks.
#[must_use]
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
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Acquire)
}

pub(crate) fn count_leak() {
    LEAKS.fetch_add(1, Ordering::Relaxed);
}

/// Watches for exit and fork, once a process.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: `at_exit` takes nothing and only stores a flag.
        let exit = unsafe { libc::atexit(at_exit) };
        // SAFETY: `in_child` takes nothing and only adds to a counter, which is async-signal-safe.
        let fork = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if exit != 0 || fork != 0 {
            log::warn!(target: "crossdock::load", "exit or fork will not be noticed");
        }
    });
}

extern "C" fn at_exit() {
    let _caught = fence(|| {
        EXITING.store(true, Ordering::Release);
        crate::trace::finish();
    });
}

unsafe extern "C" fn in_child() {
    let _caught = fence(|| FORKS.fetch_add(1, Ordering::AcqRel));
}
