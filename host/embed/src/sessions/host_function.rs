//! Functions of the host that scripts reach: what takes captured streams, and what scripts call. None is
//! called any more once it is closed.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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

/// A function, and who is in it.
pub(crate) struct HostFunction<F> {
    function: F,
    calls: Mutex<Calls>,
    idle: Condvar,
}

#[derive(Default)]
struct Calls {
    active: usize,
    is_closed: bool,
}

thread_local! {
    /// The functions that this thread is in, by their addresses, the innermost last: one may lead to
    /// another, and to itself.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is in a function of the host's that a script reached.
pub(crate) fn is_inside() -> bool {
    inside(|functions| !functions.is_empty())
}

/// Looks at the functions that this thread is in. At the very end of a thread it is in none.
fn inside<T: Default>(look: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    let found = INSIDE.try_with(|inside| look(&mut inside.borrow_mut()));
    found.unwrap_or_default()
}

impl<F> HostFunction<F> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function,
            calls: Mutex::default(),
            idle: Condvar::new(),
        }
    }

    /// Calls the function, unless it is closed.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&F) -> T) -> Option<T> {
        let mut calls = self.lock();
        if calls.is_closed {
            return None;
        }
        calls.active += 1;
        drop(calls);
        inside(|functions| functions.push(self.address()));
        let _ends = Call { function: self };
        Some(call(&self.function))
    }

    /// From here on it is not called. Waits for calls that are under way, but not for those that
    /// this thread is in.
    pub(crate) fn close(&self) {
        let mut calls = self.lock();
        calls.is_closed = true;
        let is_own = |address: &&usize| **address == self.address();
        let own = inside(|functions| functions.iter().filter(is_own).count());
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
struct Call<'a, F> {
    function: &'a HostFunction<F>,
}

impl<F> Drop for Call<'_, F> {
    fn drop(&mut self) {
        inside(Vec::pop);
        self.function.lock().active -= 1;
        self.function.idle.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock, mpsc};
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
                assert_eq!(only.lock().active, 0);
            }
        });
        go.send(()).unwrap();
        closes.join().unwrap();
        calls.join().unwrap();
    }
}
