//! Threads of a driver, which block all signals: those of the process are the program's.
#![expect(unsafe_code, reason = "changes the calling thread's signal mask")]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

/// The system ends the process when a thread causes one of these faults and blocks it.
const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Starts a thread with this name, which blocks all signals but those of faults.
///
/// # Errors
/// The system cannot start another thread. `run` was dropped.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let (mut blocked, mut before) = (
        MaybeUninit::<libc::sigset_t>::zeroed(),
        MaybeUninit::<libc::sigset_t>::zeroed(),
    );
    // SAFETY: there is room for a set.
    unsafe { libc::sigfillset(blocked.as_mut_ptr()) };
    for fault in FAULTS {
        // SAFETY: a set that was made, and a valid signal.
        unsafe { libc::sigdelset(blocked.as_mut_ptr(), fault) };
    }
    // The new thread inherits the mask.
    // SAFETY: a set that was made, and room for the one before it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr()) };
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: the set that this thread had; the one before it is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    thread
}
