//! Where captured streams end: a function of the host, which is not called any more once it is
//! closed.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One of the two streams that a session can capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Stream {
    /// `sys.stdout`.
    Out,
    /// `sys.stderr`.
    Err,
}

/// Takes what a script writes: UTF-8, unless the script writes other bytes to `sys.stdout.buffer`.
///
/// Called on threads of Python, without the interpreter's lock, also on several at once.
pub type Output = Box<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// An output, and who is in it.
pub(crate) struct Sink {
    output: Output,
    calls: Mutex<Calls>,
    idle: Condvar,
}

#[derive(Default)]
struct Calls {
    active: usize,
    is_closed: bool,
}

thread_local! {
    /// The sink whose function this thread is in, by its address.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is in a function that takes what a script writes.
pub(crate) fn is_inside() -> bool {
    INSIDE.get() != 0
}

impl Sink {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            calls: Mutex::default(),
            idle: Condvar::new(),
        }
    }

    /// Passes on what was written, unless the sink is closed.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut calls = self.lock();
        if calls.is_closed {
            return;
        }
        calls.active += 1;
        drop(calls);
        let _ends = Call {
            sink: self,
            outer: INSIDE.replace(self.address()),
        };
        (self.output)(stream, bytes);
    }

    /// From here on nothing is passed on. Waits for calls that are under way, but not for those that
    /// this thread is in.
    pub(crate) fn close(&self) {
        let mut calls = self.lock();
        calls.is_closed = true;
        let own = usize::from(INSIDE.get() == self.address());
        while calls.active > own {
            calls = self
                .idle
                .wait(calls)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of the function, which ends by a panic as well.
struct Call<'a> {
    sink: &'a Sink,
    /// What the thread was in before.
    outer: usize,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        INSIDE.set(self.outer);
        self.sink.lock().active -= 1;
        self.sink.idle.notify_all();
    }
}
