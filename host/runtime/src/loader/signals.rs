//! What this process does on a signal, kept over foreign code that may change it: LLVM, which drivers
//! are made with, puts handlers of its own in the place of the host's.
#![expect(unsafe_code, reason = "asks the C library, and tells it")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// What a thread's own mistakes raise, which a driver may handle in memory of its own.
const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// What the host had chosen for signals, but faults, when this was made, which is chosen again once this is
/// dropped. Signals that nobody had chosen anything for are left: the host may do so meanwhile.
pub(crate) struct Signals(Vec<(c_int, libc::sigaction)>);

impl Signals {
    pub(crate) fn keep() -> Self {
        let all = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
        let chosen = |signal: c_int| {
            let is_chosen = |action: &libc::sigaction| action.sa_sigaction != libc::SIG_DFL;
            Some((signal, action(signal).filter(is_chosen)?))
        };
        Self(all.filter_map(chosen).collect())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            let is_same = |now: libc::sigaction| now.sa_sigaction == before.sa_sigaction;
            if action(*signal).is_some_and(is_same) {
                continue;
            }
            // SAFETY: what the C library told of this signal.
            let _set = unsafe { libc::sigaction(*signal, before, ptr::null_mut()) };
        }
    }
}

/// What is done on a signal; `None` for one that has no handler.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: a place for the answer.
    let told = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: written, and zeros are a value too.
    (told == 0).then(|| unsafe { action.assume_init() })
}
