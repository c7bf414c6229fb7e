//! The life of the process: it may be a fork, which has none of our threads, and it exits.
#![expect(unsafe_code, reason = "registers C callbacks for exit and fork")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

use crossdock_sdk::fence::fence;

use crate::failure::{Failure, Kind};

static FORKED: AtomicBool = AtomicBool::new(false);

/// The thread that ends Python, where somebody else started it.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();

/// What the host of scripts does at the ends of others.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Whether this thread runs a script that is given the time to end.
    pub(crate) may_finish_script: fn() -> bool,
    /// Ends the work of scripts, as far as it ends within this time.
    pub(crate) close: fn(Duration),
}

/// Empty until the host of scripts runs.
static WATCHED: OnceLock<Watched> = OnceLock::new();

/// How long exit waits for a script to end.
const LAST_WAIT: Duration = Duration::from_millis(200);

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

/// Says that this thread begins to end Python.
pub(crate) fn python_ends() {
    let _once = ENDED_BY.set(std::thread::current().id());
}

/// Stays here for ever where another thread ends Python: before 3.14 it would end a thread that asks
/// for its lock by unwinding, which no Rust frame survives. A script that runs may still end.
pub(crate) fn stay_if_python_ends() {
    let own = std::thread::current().id();
    let is_to_stay = || {
        let by_another = ENDED_BY.get().is_some_and(|by| *by != own);
        by_another && !WATCHED.get().is_some_and(|host| (host.may_finish_script)())
    };
    while is_to_stay() {
        std::thread::park();
    }
}

/// Watches for fork and exit, once a process.
pub(crate) fn watch(host: Watched) {
    static WATCH: Once = Once::new();
    let _once = WATCHED.set(host);
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
        if let Some(host) = WATCHED.get().filter(|_| !is_forked()) {
            (host.close)(LAST_WAIT);
        }
    })
    .unwrap_or_default();
}
