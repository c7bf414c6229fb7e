//! What this process does on a signal, kept over foreign code that may change it: LLVM, which drivers
//! are made with, puts handlers of its own in the place of the host's.
#![expect(unsafe_code, reason = "asks the C library, and tells it")]

use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a thread's own mistakes raise, which a driver may handle in memory of its own.
const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// What the host had chosen for signals, but faults, while threads run foreign code: the first of them
/// notes it, and it is chosen again once the last is done. Signals that nobody had chosen anything for are left:
/// the host may do so meanwhile.
#[derive(Default)]
pub(crate) struct KeptSignals(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    users: u32,
    chosen: Vec<(c_int, libc::sigaction)>,
}

impl KeptSignals {
    /// Keeps them until the answer is dropped.
    pub(crate) fn keep(&self) -> impl Drop {
        let mut kept = self.lock();
        if kept.users == 0 {
            let all = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
            kept.chosen = all.filter_map(chosen).collect();
        }
        kept.users += 1;
        SignalUser(self)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KeptSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptSignals").finish_non_exhaustive()
    }
}

struct SignalUser<'a>(&'a KeptSignals);

impl Drop for SignalUser<'_> {
    fn drop(&mut self) {
        let mut kept = self.0.lock();
        kept.users -= 1;
        if kept.users > 0 {
            return;
        }
        for (signal, before) in std::mem::take(&mut kept.chosen) {
            let is_same = |now: libc::sigaction| now.sa_sigaction == before.sa_sigaction;
            if action(signal).is_some_and(is_same) {
                continue;
            }
            // SAFETY: what the C library told of this signal.
            let _set = unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
        }
    }
}

/// What somebody has chosen for a signal.
fn chosen(signal: c_int) -> Option<(c_int, libc::sigaction)> {
    let is_chosen = |action: &libc::sigaction| action.sa_sigaction != libc::SIG_DFL;
    Some((signal, action(signal).filter(is_chosen)?))
}

/// What is done on a signal; `None` for one that has no handler.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: a place for the answer.
    let told = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: written, and zeros are a value too.
    (told == 0).then(|| unsafe { action.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(handler: libc::sighandler_t) {
        // SAFETY: nobody raises this signal.
        unsafe { libc::signal(libc::SIGUSR2, handler) };
    }

    #[test]
    fn of_two_that_run_foreign_code_at_once_none_takes_the_others_handler_for_the_hosts() {
        let signals = KeptSignals::default();
        choose(libc::SIG_IGN);
        let before = action(libc::SIGUSR2).unwrap().sa_sigaction;
        let first = signals.keep();
        choose(4096);
        let second = signals.keep();
        drop(first);
        drop(second);
        assert_eq!(action(libc::SIGUSR2).unwrap().sa_sigaction, before);
    }
}
