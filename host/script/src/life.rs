//! The life of the process: it may be a fork, which has none of our threads, and it exits.
#![expect(unsafe_code, reason = "registers C callbacks for exit and fork")]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossdock_sdk::fence::fence;

use crate::failure::{Failure, Kind};
use crate::host::Host;

static FORKED: AtomicBool = AtomicBool::new(false);

/// How long exit waits for a script to end.
pub(crate) const LAST_WAIT: Duration = Duration::from_millis(200);

/// Whether this is a child of the process that started Python here.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// The refusal of everything in such a child.
pub(crate) fn refuse_forks() -> Result<(), Failure> {
    if is_forked() {
        return Err(
            Failure::new(Kind::Forked, "use the host of scripts").because(
                "this process is a fork of the one that has it",
                "run scripts in the parent",
            ),
        );
    }
    Ok(())
}

/// Watches for fork and exit, once a process.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: `in_child` takes nothing and sets a flag.
        let fork = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // SAFETY: `at_exit` takes nothing and may be called on any thread.
        let exit = unsafe { libc::atexit(at_exit) };
        if fork != 0 || exit != 0 {
            log::warn!(target: "crossdock::script", "forks or the exit will not be noticed");
        }
    });
}

unsafe extern "C" fn in_child() {
    fence(|| FORKED.store(true, Ordering::Release)).unwrap_or_default();
}

extern "C" fn at_exit() {
    fence(|| {
        if let Some(host) = Host::started().filter(|_| !is_forked()) {
            host.close(LAST_WAIT);
        }
    })
    .unwrap_or_default();
}
