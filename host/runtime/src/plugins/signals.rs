//! What this process does on a signal, kept over foreign code that may change it: LLVM, which drivers
//! are made with, puts handlers of its own in the place of the host's.
#![expect(unsafe_code, reason = "asks the C library, and tells it")]

use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sdk::threads::FAULTS;

/// What others end a process by. LLVM's handlers of some take the first one and end nothing.
const ENDS: [c_int; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGABRT,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// The host's dispositions of signals while threads run foreign code: the first of them keeps them, and the last one
/// restores them. Not those of faults, which a driver may handle in memory of its own. Where a signal had none but the
/// default, the host may set one meanwhile, and a driver may need one for itself. So the default is restored only for a
/// signal that ends a process, and only in the place of a handler of code that was loaded meanwhile.
#[derive(Default)]
pub(crate) struct KeptSignals(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    users: u32,
    before: Vec<(c_int, libc::sigaction)>,
    /// Where the code lies that was loaded before.
    code: Vec<Range<usize>>,
}

impl KeptSignals {
    /// Keeps them until the answer is dropped.
    pub(crate) fn keep(&self) -> impl Drop {
        let mut kept = self.lock();
        if kept.users == 0 {
            let all = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
            let before = all.filter_map(|signal| Some((signal, action(signal)?)));
            kept.before = before.collect();
            kept.code = loaded();
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
        let (earlier, now) = (std::mem::take(&mut kept.code), loaded());
        let is_new = |handler| is_in(&now, handler) && !is_in(&earlier, handler);
        for (signal, before) in std::mem::take(&mut kept.before) {
            let Some(now) = action(signal) else {
                continue;
            };
            let was_chosen = before.sa_sigaction != libc::SIG_DFL;
            let is_taken = || ENDS.contains(&signal) && is_new(now.sa_sigaction);
            if now.sa_sigaction == before.sa_sigaction || !(was_chosen || is_taken()) {
                continue;
            }
            // SAFETY: what the C library told of this signal.
            let _set = unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
        }
    }
}

/// Where code lies. The dynamic linker could be asked too, but the lock that it takes for the answer stays
/// locked for ever in a child that another thread forks off meanwhile.
fn loaded() -> Vec<Range<usize>> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    maps.split(|byte| *byte == b'\n').filter_map(code).collect()
}

/// The addresses of a line of the list, `START-END MODE ..`, where they are code.
fn code(line: &[u8]) -> Option<Range<usize>> {
    let mut words = line.split(|byte| *byte == b' ');
    let (start, end) = std::str::from_utf8(words.next()?).ok()?.split_once('-')?;
    let is_code = words.next()?.contains(&b'x');
    let number = |text| usize::from_str_radix(text, 16).ok();
    is_code.then_some(number(start)?..number(end)?)
}

fn is_in(code: &[Range<usize>], address: usize) -> bool {
    code.iter().any(|range| range.contains(&address))
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Code of this program.
    extern "C" fn here(_signal: c_int) {}

    fn choose(handler: libc::sighandler_t) {
        choose_for(libc::SIGUSR2, handler);
    }

    fn choose_for(signal: c_int, handler: libc::sighandler_t) {
        // SAFETY: nobody raises these signals.
        unsafe { libc::signal(signal, handler) };
    }

    #[test]
    fn only_code_that_came_meanwhile_loses_a_signal_that_ends_a_process() {
        let signals = KeptSignals::default();
        #[expect(clippy::fn_to_numeric_cast_any, reason = "where it lies is asked")]
        let ours = here as *const () as usize;
        let of_nobody = 4096;
        let cases = [
            (libc::SIGXFSZ, ours, true, libc::SIG_DFL),
            (libc::SIGXFSZ, ours, false, ours),
            (libc::SIGXFSZ, of_nobody, true, of_nobody),
            (libc::SIGWINCH, ours, true, ours),
        ];
        for (signal, handler, is_new, expected) in cases {
            // The parent of this process may have it ignored.
            choose_for(signal, libc::SIG_DFL);
            let kept = signals.keep();
            if is_new {
                signals.lock().code.clear();
            }
            choose_for(signal, handler);
            drop(kept);
            assert_eq!(action(signal).unwrap().sa_sigaction, expected, "{signal}");
            choose_for(signal, libc::SIG_DFL);
        }
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

    /// glibc's lock of the list of libraries is not made anew in a child.
    #[test]
    fn a_child_that_is_forked_off_while_others_keep_them_can_keep_them() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(KeptSignals::default().keep());
                }
            });
            for _ in 0..300 {
                // SAFETY: the child calls what a child may call here, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: takes a number; what would wait for ever is ended.
                    unsafe { libc::alarm(20) };
                    drop(KeptSignals::default().keep());
                    // SAFETY: ends the child, and nothing of the parent's.
                    unsafe { libc::_exit(0) };
                }
                let mut status = 0;
                // SAFETY: a child of this process, and a place for its status.
                let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
                if (ended, status) != (child, 0) {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_eq!((ended, status), (child, 0));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
