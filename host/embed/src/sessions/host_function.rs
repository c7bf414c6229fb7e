//! Functions of the host that scripts reach: what takes captured streams, and what scripts call. None is
//! called any more once it is closed.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::process::{self, ThreadIdent};
use crate::python::value::Value;

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

/// A function that scripts call: the arguments by place and by name.
///
/// Called on threads of Python, without the interpreter's lock, also on several at once.
pub type Function =
    Box<dyn Fn(Vec<Value>, Vec<(String, Value)>) -> Result<Value, FunctionFailure> + Send + Sync>;

/// Why a function of the host's has no answer: what the script's exception says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "functions of the host make it")]
pub struct FunctionFailure {
    /// The text of the exception.
    pub text: String,
    /// It is a `MemoryError`, else a `RuntimeError`.
    pub is_out_of_memory: bool,
}

/// A function, and the threads that call it.
pub(crate) struct HostFunction<F> {
    calls: Mutex<Calls<F>>,
    idle: Condvar,
}

struct Calls<F> {
    /// `None` once it is closed.
    function: Option<Arc<F>>,
    /// The thread of each call, which may be one thread several times.
    active: Vec<ThreadIdent>,
}

thread_local! {
    /// How many calls of host functions this thread is in. It has no destructor, so functions that an exit
    /// calls may read it.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is in a function of the host's that a script reached.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

impl<F> HostFunction<F> {
    pub(crate) fn new(function: F) -> Self {
        let calls = Calls {
            function: Some(Arc::new(function)),
            active: Vec::new(),
        };
        Self {
            calls: Mutex::new(calls),
            idle: Condvar::new(),
        }
    }

    /// Calls the function, unless it is closed.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&F) -> T) -> Option<T> {
        let mut calls = self.lock();
        let function = Some(Arc::clone(calls.function.as_ref()?));
        calls.active.push(process::this_thread());
        drop(calls);
        DEPTH.set(DEPTH.get() + 1);
        let active = Call { of: self, function };
        active.function.as_deref().map(call)
    }

    /// Closes the function: from here on it is not called, and it is dropped before this returns. Waits for calls
    /// on other threads, unless the process exits. If this thread is in the function, the end of that call drops
    /// it.
    pub(crate) fn close(&self) {
        let mut calls = self.lock();
        let function = calls.function.take();
        let own = process::this_thread();
        while calls.active.iter().any(|thread| *thread != own) && !process::is_exiting() {
            calls = self
                .idle
                .wait(calls)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(calls);
        drop(function);
    }

    fn lock(&self) -> MutexGuard<'_, Calls<F>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of the function, which ends by a panic as well.
struct Call<'a, F> {
    of: &'a HostFunction<F>,
    function: Option<Arc<F>>,
}

impl<F> Drop for Call<'_, F> {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        // `close` waits for this, too.
        drop(self.function.take());
        let mut calls = self.of.lock();
        let own = process::this_thread();
        let at = calls.active.iter().position(|thread| *thread == own);
        if let Some(at) = at {
            calls.active.swap_remove(at);
        }
        drop(calls);
        self.of.idle.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{OnceLock, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// What a function does, once that is given.
    type Later = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

    fn function() -> (Arc<HostFunction<Later>>, Later) {
        let later = Later::default();
        (Arc::new(HostFunction::new(Arc::clone(&later))), later)
    }

    fn call(function: &HostFunction<Later>) {
        let called = function.call(|later| later.get().map(|then| then()));
        let _closed = called;
    }

    fn set(later: &Later, body: impl Fn() + Send + Sync + 'static) {
        assert!(later.set(Box::new(body)).is_ok());
    }

    /// Calls on a thread that a defect would block for ever.
    fn call_soon(function: Arc<HostFunction<Later>>) {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            call(&function);
            done.send(()).unwrap();
        });
        ended.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn a_close_from_within_another_function_does_not_wait_for_itself() {
        let ((outer, in_outer), (inner, in_inner)) = (function(), function());
        let closed = Arc::clone(&outer);
        set(&in_inner, move || closed.close());
        set(&in_outer, move || call(&inner));
        call_soon(outer);
    }

    #[test]
    fn a_close_from_within_a_function_that_calls_itself_does_not_wait_for_itself() {
        let (only, in_only) = function();
        let again = Arc::clone(&only);
        let depth = std::sync::atomic::AtomicU32::new(0);
        set(&in_only, move || {
            match depth.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => call(&again),
                _ => again.close(),
            }
        });
        call_soon(only);
    }

    #[test]
    fn a_close_waits_for_a_call_on_another_thread() {
        let (only, in_only) = function();
        let (entered, is_in) = mpsc::sync_channel(0);
        let (go, may_go) = mpsc::channel::<()>();
        let may_go = Mutex::new(may_go);
        set(&in_only, move || {
            entered.send(()).unwrap();
            may_go.lock().unwrap().recv().unwrap();
        });
        let calls = thread::spawn({
            let only = Arc::clone(&only);
            move || call(&only)
        });
        is_in.recv().unwrap();
        let closes = thread::spawn({
            let only = Arc::clone(&only);
            move || {
                only.close();
                assert!(only.lock().active.is_empty());
            }
        });
        go.send(()).unwrap();
        closes.join().unwrap();
        calls.join().unwrap();
    }

    #[test]
    fn a_closed_function_is_dropped_before_close_returns() {
        let (only, in_only) = function();
        // A thread that has just left the function may still hold it.
        let held = Arc::clone(&only);
        only.close();
        assert_eq!(Arc::strong_count(&in_only), 1);
        assert_eq!(held.call(|_| ()), None);
    }

    #[test]
    fn a_function_closed_during_its_own_call_is_dropped_when_the_call_ends() {
        let (only, in_only) = function();
        let closed = Arc::clone(&only);
        let during = Arc::downgrade(&in_only);
        set(&in_only, move || {
            closed.close();
            assert_eq!(during.strong_count(), 2);
        });
        call_soon(Arc::clone(&only));
        assert_eq!(Arc::strong_count(&in_only), 1);
    }
}
