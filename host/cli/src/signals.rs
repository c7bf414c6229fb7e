//! Signals that the command handles. A program that it starts has the actions that the command inherited.
#![expect(unsafe_code, reason = "sets signal actions")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use crossdock_sdk::fence::fence;

/// Makes a write past the limit on file sizes an error, which names the file. By default it ends the process.
pub(crate) fn report_large_files() {
    extern "C" fn nothing(_signal: c_int) {
        let _done = fence(|| ());
    }
    handle(libc::SIGXFSZ, nothing, libc::SA_RESTART);
}

/// Handles a signal that has its default action: the parent process may have it ignored.
#[expect(
    clippy::fn_to_numeric_cast_any,
    reason = "the C library takes handlers as numbers"
)]
pub(crate) fn handle(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action and changes none.
    unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed, and every bit pattern of it is an action.
    let mut action = unsafe { action.assume_init() };
    if action.sa_sigaction != libc::SIG_DFL {
        return;
    }
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the handler makes only calls that a handler may make.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}
