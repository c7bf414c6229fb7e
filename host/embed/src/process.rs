//! The life of the process: it may be a fork, which has none of our threads, and it exits.
#![expect(unsafe_code, reason = "registers C callbacks for exit and fork")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use crossdock_sdk::fence::fence;

use crate::failure::{Failure, Kind};

static FORKED: AtomicBool = AtomicBool::new(false);
static EXITING: AtomicBool = AtomicBool::new(false);

/// A thread, as the system and Python identify it.
pub(crate) type ThreadIdent = libc::pthread_t;

/// The calling thread. Unlike Rust's own identifier it is available while the thread exits the process.
pub(crate) fn this_thread() -> ThreadIdent {
    // SAFETY: asks for nothing.
    unsafe { libc::pthread_self() }
}

/// The thread that ends Python, where somebody else started it.
static ENDED_BY: OnceLock<ThreadIdent> = OnceLock::new();

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

/// Whether the process has begun to exit: threads may wait in it for what never comes.
pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

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
    let _once = ENDED_BY.set(this_thread());
}

/// Stays here for ever where another thread ends Python: before 3.14 it would end a thread that asks
/// for its lock by unwinding, which no Rust frame survives. A script that runs may still end.
pub(crate) fn stay_if_python_ends() {
    let own = this_thread();
    let is_to_stay = || {
        let by_another = ENDED_BY.get().is_some_and(|by| *by != own);
        by_another && !WATCHED.get().is_some_and(|host| (host.may_finish_script)())
    };
    while is_to_stay() {
        pause();
    }
}

/// Waits for a signal's handler, which may never come.
pub(crate) fn pause() {
    // SAFETY: takes nothing.
    unsafe { libc::pause() };
}

/// Watches for fork and exit, once a process.
pub(crate) fn watch(host: Watched) {
    static WATCH: Once = Once::new();
    let _once = WATCHED.set(host);
    WATCH.call_once(|| {
        // SAFETY: `in_child` takes nothing and sets a flag.
        let fork = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if fork != 0 {
            log::warn!(target: "crossdock::script", "cannot register a fork handler");
        }
        watch_exit();
    });
}

/// Registers the exit handler in front of every destructor that is registered by now: the latest runs first.
pub(crate) fn watch_exit() {
    // SAFETY: `at_exit` takes nothing, may be called on any thread, and does its work once.
    if unsafe { libc::atexit(at_exit) } != 0 {
        log::warn!(target: "crossdock::script", "cannot register an exit handler");
    }
}

unsafe extern "C" fn in_child() {
    fence(|| FORKED.store(true, Ordering::Release)).unwrap_or_default();
}

extern "C" fn at_exit() {
    fence(|| {
        let has_begun = EXITING.swap(true, Ordering::AcqRel);
        if let Some(host) = WATCHED.get().filter(|_| !is_forked() && !has_begun) {
            (host.close)(LAST_WAIT);
        }
    })
    .unwrap_or_default();
}
