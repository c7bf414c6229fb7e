//! Which threads scripts started: a script may wait for them, so they cannot wait for a script.
//!
//! Linux hands the timer slack of a thread down to the threads that it starts, and they hand it down
//! in turn. So the script thread has one that no other thread of the process has: a nanosecond more
//! than it was given. Nobody feels it, and children of the process have it as their usual one.
#![expect(unsafe_code, reason = "asks the kernel for a thread's timer slack")]

use std::ffi::{c_int, c_ulong};

/// The mark of the script thread and of the threads that scripts started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(c_int);

impl Mark {
    /// Marks this thread and all that it will start. `None` where the system has no such mark, or the
    /// thread cannot have one (threads with real-time priority have no slack).
    pub(crate) fn this_thread() -> Option<Self> {
        let mark = slack()?.checked_add(1)?;
        let wanted = c_ulong::try_from(mark).ok()?;
        // SAFETY: a number, and no pointer.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, wanted) };
        (slack() == Some(mark)).then_some(Self(mark))
    }

    /// Whether this thread has it.
    pub(crate) fn is_here(self) -> bool {
        slack() == Some(self.0)
    }
}

/// The timer slack of this thread, in nanoseconds.
fn slack() -> Option<c_int> {
    // SAFETY: asks for a number.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    (slack > 0).then_some(slack)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_marked_thread_hands_its_mark_down_and_no_other_has_it() {
        let marked = thread::spawn(|| {
            let mark = Mark::this_thread();
            let child = move || thread::spawn(move || mark.is_some_and(Mark::is_here));
            let grandchild = thread::spawn(move || child().join());
            (mark, grandchild.join().and_then(|inner| inner))
        });
        let (mark, handed_down) = marked.join().unwrap();
        assert!(handed_down.unwrap());
        assert!(!mark.unwrap().is_here());
    }
}
