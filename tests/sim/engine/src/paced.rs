//! Work that takes real time: it has its link for as long as its bytes need, and other work goes on meanwhile.
//!
//! Only `Threads` does that. Simulated time is the machine's then. When an operation began follows from what it
//! waited for and from its link, not from when a worker came to it: so what is submitted in time loses nothing to
//! a worker that wakes late.
#![expect(unsafe_code, reason = "moves bytes that the submitter vouched for")]

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::arena::{Arena, size};
use crate::engine::{Locked, Shared};
use crate::op::Body;
use crate::state::{Phase, State};

/// Bytes that are due to be moved, without the lock.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) queue: usize,
    pub(crate) op: u64,
    pub(crate) body: Body,
    /// When its link is free again.
    pub(crate) end_ns: u64,
}

impl State {
    /// Simulated time now, as host code sees it.
    pub(crate) fn now_ns(&self) -> u64 {
        if self.is_paced() {
            u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
        } else {
            self.host_ns
        }
    }

    /// The bytes of an operation are where they belong; it ends with the use of its link.
    fn moved(&mut self, queue: usize, op: u64, end_ns: u64) {
        let busy = self.queues.get_mut(queue).and_then(|q| q.busy.as_mut());
        if let Some(busy) = busy.filter(|busy| busy.op == op) {
            busy.phase = Phase::Until(end_ns);
        }
    }

    /// Ends what has had its link for long enough; whether there was something.
    pub(crate) fn end_what_is_due(&mut self) -> bool {
        let now_ns = self.now_ns();
        let mut is_any = false;
        for at in 0..self.queues.len() {
            let queue = self.queues.get_mut(at);
            let busy = queue.and_then(|queue| queue.busy.take_if(|busy| busy.is_due(now_ns)));
            if let Some(busy) = busy {
                self.finish(at, busy.stream, busy.clock, busy.failed);
                self.forget_stream(busy.stream);
                is_any = true;
            }
        }
        is_any
    }

    /// How long it is until the next operation ends.
    fn until_the_next_end(&self) -> Option<Duration> {
        let ends = self.queues.iter().filter_map(|queue| {
            let Phase::Until(end_ns) = queue.busy.as_ref()?.phase else {
                return None;
            };
            Some(end_ns)
        });
        let left = ends.min()?.saturating_sub(self.now_ns());
        Some(Duration::from_nanos(left))
    }
}

impl Shared {
    /// Moves the bytes of an operation, and lets its link be used until it ends.
    pub(crate) fn transfer<'a>(&'a self, state: Locked<'a>, bytes: &Move) -> Locked<'a> {
        drop(state);
        // SAFETY: the submitter vouched for host memory until the operation is over, which it is not before `moved`.
        unsafe { bytes.body.move_bytes(&self.arena) };
        let mut state = self.lock();
        state.moved(bytes.queue, bytes.op, bytes.end_ns);
        self.due.notify_all();
        state
    }

    /// The life of the thread that ends operations whose time is over.
    pub(crate) fn keep_time(self: &Arc<Self>) {
        wake_precisely();
        let mut state = self.lock();
        while !state.over {
            if state.end_what_is_due() {
                state.tidy();
                self.changed.notify_all();
            }
            state = match state.until_the_next_end() {
                None => self.due.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.due.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Lets the system wake the calling thread when it asked for that, and not up to 50 µs later with others.
fn wake_precisely() {
    #[cfg(target_os = "linux")]
    // SAFETY: it changes the calling thread's timers alone. Where it fails, they are late.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize)
    };
}

/// Repeats a pattern.
///
/// # Safety
///
/// The bytes are valid, and the pattern is not among them.
unsafe fn fill(at: *mut u8, bytes: usize, pattern: &[u8]) {
    let mut done = pattern.len().min(bytes);
    // SAFETY: within the bytes that the caller vouches for.
    unsafe { at.copy_from_nonoverlapping(pattern.as_ptr(), done) };
    while done < bytes {
        let more = done.min(bytes - done);
        let behind = at.wrapping_add(done);
        // SAFETY: as above, and what is filled already lies before it.
        unsafe { behind.copy_from_nonoverlapping(at, more) };
        done += more;
    }
}

impl Body {
    /// Moves bytes to where they belong; nothing where the operation is about none.
    ///
    /// # Safety
    ///
    /// Host memory of both sides is valid. The sides may overlap.
    pub(crate) unsafe fn move_bytes(&self, arena: &Arena) {
        match self {
            Self::Copy {
                target,
                source,
                bytes,
            } => {
                let (to, from) = (arena.view(*target), arena.view(*source));
                // SAFETY: the caller vouches for host memory, and memory of the arena is always mapped in the
                // engine's view.
                unsafe { to.copy_from(from, size(*bytes)) };
            }
            // SAFETY: as above, for the bytes of all elements.
            Self::Strided(walk) => unsafe { walk.run(arena) },
            Self::Fill {
                target,
                rows,
                pattern,
            } => {
                for row in 0..rows.count {
                    let at = arena.view(target + row * rows.pitch);
                    // SAFETY: as above, within the filled rows; the pattern is elsewhere.
                    unsafe { fill(at, size(rows.bytes), pattern) };
                }
            }
            Self::Host(_)
            | Self::Record(_)
            | Self::Wait(_)
            | Self::WaitWord(..)
            | Self::WriteWord(_)
            | Self::Allocate(_)
            | Self::Free(_) => {}
        }
    }
}
