//! Threads that block all signals, as every thread of the host and of a plugin does.
//!
//! The system delivers a signal of the process to any thread that does not block it. So a thread of a library that
//! blocks less than the program's own threads runs the program's handlers, or ends a program that waits for the
//! signal in `sigwait`.
#![expect(unsafe_code, reason = "changes the calling thread's signal mask")]

use std::ffi::c_int;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// The signals that a thread's own faults raise. They stay unblocked: if a thread causes a fault while it blocks the
/// signal, the kernel kills the process without calling the program's handler.
pub const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Configures and starts a thread that blocks all signals except [`FAULTS`] from its first instruction.
///
/// ```
/// use crossdock_sdk::threads::Thread;
///
/// let thread = Thread::named("example stream").spawn(|| 6 * 7)?;
/// assert_eq!(thread.join().ok(), Some(42));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Thread(Builder);

impl Thread {
    /// A thread with this name, which contains no NUL. The system shows its first 15 bytes.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self(Builder::new().name(name.into()))
    }

    /// Sets the size of its stack in bytes.
    #[must_use]
    pub fn stack_size(self, bytes: usize) -> Self {
        Self(self.0.stack_size(bytes))
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start another thread. `run` was dropped.
    pub fn spawn<T: Send + 'static>(
        self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let _restored = SignalMask::of_our_threads().swap();
        self.0.spawn(run)
    }

    /// Starts the thread in a scope, which joins it.
    ///
    /// # Errors
    /// As [`Thread::spawn`].
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let _restored = SignalMask::of_our_threads().swap();
        self.0.spawn_scoped(scope, run)
    }
}

/// A set of signals that a thread blocks. A thread starts with the mask of the thread that starts it.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Returns the mask of the calling thread.
    #[must_use]
    pub fn current() -> Self {
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: changes nothing, and there is room for the answer.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr()) };
        // SAFETY: zeroed, and every bit pattern is a set.
        Self(unsafe { mask.assume_init() })
    }

    /// That of the threads started here: all signals but those of faults.
    fn of_our_threads() -> Self {
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: there is room for a set.
        unsafe { libc::sigfillset(mask.as_mut_ptr()) };
        // SAFETY: zeroed, and every bit pattern is a set.
        let all = Self(unsafe { mask.assume_init() });
        FAULTS.into_iter().fold(all, Self::without)
    }

    /// Removes `signal` from the mask. A number that is not a signal is ignored.
    #[must_use]
    pub fn without(mut self, signal: c_int) -> Self {
        // SAFETY: a set of ours; a number that is not a signal is refused.
        unsafe { libc::sigdelset(&raw mut self.0, signal) };
        self
    }

    /// Sets the calling thread's mask. Dropping the result, on the same thread, restores the previous mask.
    pub fn swap(self) -> Swapped {
        let mut before = Self::current();
        // SAFETY: a set that was made, and room for the one before it.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, &raw mut before.0) };
        Swapped(before, PhantomData)
    }
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalMask").finish_non_exhaustive()
    }
}

/// Restores the mask that the thread had before [`SignalMask::swap`].
#[derive(Debug)]
#[must_use]
pub struct Swapped(SignalMask, PhantomData<*const ()>);

impl Drop for Swapped {
    fn drop(&mut self) {
        // SAFETY: a set that was the thread's own; the one before it is not wanted.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0.0, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals that the calling thread blocks, the lowest bit being signal 1.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    }

    fn has(mask: u64, signal: c_int) -> bool {
        mask & (1 << (signal - 1)) != 0
    }

    #[test]
    fn a_thread_blocks_all_signals_but_faults_and_its_parent_blocks_as_before() {
        let before = blocked();
        let own = Thread::named("test").spawn(blocked).unwrap();
        let scoped = std::thread::scope(|scope| {
            let thread = Thread::named("test").spawn_scoped(scope, blocked);
            thread.unwrap().join().unwrap()
        });
        for mask in [own.join().unwrap(), scoped] {
            let asked = [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD, libc::SIGPROF];
            for signal in asked
                .into_iter()
                .chain([libc::SIGRTMIN(), libc::SIGRTMAX()])
            {
                assert!(has(mask, signal), "{signal} of {mask:#x}");
            }
            assert!(
                FAULTS.into_iter().all(|fault| !has(mask, fault)),
                "{mask:#x}"
            );
        }
        assert_eq!(blocked(), before);
    }

    #[test]
    fn a_mask_is_restored_when_its_guard_is_dropped() {
        let before = blocked();
        let swapped = SignalMask::current().without(libc::SIGTERM).swap();
        let all = SignalMask::of_our_threads().swap();
        assert!(has(blocked(), libc::SIGTERM));
        drop(all);
        assert!(!has(blocked(), libc::SIGTERM));
        drop(swapped);
        assert_eq!(blocked(), before);
    }
}
