//! What this process does on a signal, kept over foreign code that may change it: LLVM, which drivers
//! are made with, puts handlers of its own in the place of the host's.
#![expect(unsafe_code, reason = "asks the C library, and tells it")]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sdk::fence::fence;

/// What a thread's own mistakes raise, which a driver may handle in memory of its own.
const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

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

/// What the host had chosen for signals, but faults, while threads run foreign code: the first of them
/// notes it, and it is chosen again once the last is done. The host may choose something meanwhile for a signal
/// that nobody had chosen anything for. So the default is chosen again only for one that ends a process, and
/// only in the place of code that was loaded meanwhile. A driver may need the others for itself.
#[derive(Default)]
pub(crate) struct KeptSignals(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    users: u32,
    before: Vec<(c_int, libc::sigaction)>,
    /// Where programs and libraries lie that were loaded before.
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

/// Where the program and its libraries lie.
fn loaded() -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // SAFETY: the function is given the place of the list, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(enter), (&raw mut found).cast()) };
    found
}

/// Enters the segments of one into the list that `found` points to.
unsafe extern "C" fn enter(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // Nothing in here calls code of others.
    let entered = fence(|| {
        // SAFETY: the C library lends it for the call.
        let object = unsafe { &*object };
        // SAFETY: the list of `loaded`, which nobody else has.
        let found = unsafe { &mut *found.cast::<Vec<Range<usize>>>() };
        let (first, count) = (object.dlpi_phdr, usize::from(object.dlpi_phnum));
        // SAFETY: as many headers as it says.
        let headers = unsafe { std::slice::from_raw_parts(first, count) };
        let segments = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        found.extend(segments.filter_map(|segment| {
            let start = usize::try_from(object.dlpi_addr.wrapping_add(segment.p_vaddr)).ok()?;
            Some(start..start.checked_add(usize::try_from(segment.p_memsz).ok()?)?)
        }));
    });
    c_int::from(entered.is_none())
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
    use super::*;

    /// Lies where the code of this program does.
    static HERE: u8 = 0;

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
        let ours = (&raw const HERE).addr();
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
}
