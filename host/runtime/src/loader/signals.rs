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

/// The handlers of all signals but faults as they were when this was made, which they are again once this is
/// dropped. What the host changes on another thread meanwhile is undone too.
pub(crate) struct Signals(Vec<(c_int, libc::sigaction)>);

impl Signals {
    pub(crate) fn keep() -> Self {
        let all = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
        Self(
            all.filter_map(|signal| Some((signal, action(signal)?)))
                .collect(),
        )
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
