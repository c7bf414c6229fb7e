//! Signals that the command handles. A program that it starts has the actions that the command inherited.
#![expect(unsafe_code, reason = "sets signal actions")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use crossdock_sdk::child;
use crossdock_sdk::fence::fence;

use crate::temporary;

/// Makes a write past the limit on file sizes an error, which names the file. By default it ends the process.
pub(crate) fn report_large_files() {
    extern "C" fn nothing(_signal: c_int, _facts: *mut libc::siginfo_t, _context: *mut c_void) {
        let _done = fence(|| ());
    }
    if action(libc::SIGXFSZ).sa_sigaction == libc::SIG_DFL {
        set(libc::SIGXFSZ, nothing, libc::SA_RESTART);
    }
}

/// Before a signal ends this process, ends its children and removes its temporary files.
///
/// This is called before a plugin is loaded, so what a driver does with a fault comes first.
pub(crate) fn clean_up_before_the_end() {
    for signal in ENDS {
        // The parent process may have it ignored.
        if action(signal).sa_sigaction == libc::SIG_DFL {
            set(signal, clean_up, 0);
        }
    }
    for (signal, before) in FAULTS.into_iter().zip(&BEFORE) {
        let action = before.get_or_init(|| action(signal));
        if action.sa_sigaction != libc::SIG_IGN {
            // The handler of Rust's library has the same stack.
            set(signal, clean_up, libc::SA_ONSTACK);
        }
    }
}

/// Cleans up, and lets the signal end the process as it does without this handler.
extern "C" fn clean_up(signal: c_int, facts: *mut libc::siginfo_t, _context: *mut c_void) {
    // Nothing in here panics; a fence that catches nothing makes no call.
    let _done = fence(|| {
        child::kill_all();
        temporary::remove_all();
        let place = FAULTS.iter().position(|fault| *fault == signal);
        let before = place.and_then(|place| BEFORE.get(place)?.get());
        // SAFETY: the system gives the facts of the signal.
        let is_sent = unsafe { facts.as_ref() }.is_none_or(|facts| facts.si_code <= 0);
        if let (Some(before), false) = (before, is_sent) {
            // The instruction runs again, and the handler before this one tells of a full stack.
            // SAFETY: an action that the signal had.
            unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
            return;
        }
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: a valid signal, which comes when this handler returns.
        unsafe { libc::raise(signal) };
    });
}

/// What a signal does now.
fn action(signal: c_int) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action and changes none.
    unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed, and every bit pattern of it is an action.
    unsafe { action.assume_init() }
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Handles a signal, with all others blocked meanwhile.
#[expect(
    clippy::fn_to_numeric_cast_any,
    reason = "the C library takes handlers as numbers"
)]
fn set(signal: c_int, handler: Handler, flags: c_int) {
    let mut action = action(signal);
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: the set is written.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the handler makes only calls that a handler may make.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// What faults did when the command began: Rust's library handles both, to tell of a full stack.
static BEFORE: [OnceLock<libc::sigaction>; 2] = [const { OnceLock::new() }; 2];
const FAULTS: [c_int; 2] = [libc::SIGBUS, libc::SIGSEGV];

/// The other signals that end a process, but for `SIGPIPE`, which Rust's library has ignored.
const ENDS: [c_int; 18] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGFPE,
    libc::SIGHUP,
    libc::SIGILL,
    libc::SIGINT,
    libc::SIGIO,
    libc::SIGPROF,
    libc::SIGPWR,
    libc::SIGQUIT,
    libc::SIGSTKFLT,
    libc::SIGSYS,
    libc::SIGTERM,
    libc::SIGTRAP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGVTALRM,
    libc::SIGXCPU,
];
