//! A host function on its way through a stream.
#![expect(
    unsafe_code,
    reason = "a host function is a C function with a raw word"
)]

use core::ffi::c_void;

use super::Error;
use crate::abi::{HostFunction, Status};

/// A host function with its word: made by the hook, run once by whatever thread the stream has for it.
///
/// It must run, also behind work that failed and on a device that is lost: the host waits for that. One that
/// is dropped never runs.
#[derive(Debug)]
#[must_use = "the host waits until it has run"]
pub struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    word: *mut c_void,
}

// SAFETY: the caller of `new` lets the function run with its word on any thread.
unsafe impl Send for HostCall {}

impl HostCall {
    /// What [`stream_host_call`](super::HostCalls::stream_host_call) was called with.
    ///
    /// # Errors
    /// `INVALID` for a function that is NULL.
    ///
    /// # Safety
    /// - `function` may be called once with `word` on any thread.
    pub unsafe fn new(
        operation: &'static str,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<Self, Error> {
        match function {
            HostFunction(Some(function)) => Ok(Self { function, word }),
            HostFunction(None) => Err(Error::new(Status::INVALID, operation, "no function")),
        }
    }

    /// Calls it. It is the host's code, short, and waits for nothing; the caller holds no lock that a hook
    /// takes.
    pub fn run(self) {
        // SAFETY: the caller of `new` vouches for one call; `self` is used up.
        unsafe { (self.function)(self.word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    unsafe extern "C" fn count(word: *mut c_void) {
        // SAFETY: the test below passes a counter that outlives the call.
        let counter = unsafe { &*word.cast_const().cast::<AtomicU32>() };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_function_runs_once_on_another_thread_and_null_is_refused() {
        let counter = AtomicU32::new(0);
        let word = (&raw const counter).cast_mut().cast();
        // SAFETY: `count` may be called anywhere, and its counter outlives the thread.
        let call = unsafe { HostCall::new("test", HostFunction(Some(count)), word) }.unwrap();
        std::thread::scope(|scope| drop(scope.spawn(|| call.run())));
        assert_eq!(counter.load(Ordering::SeqCst), 1);
        // SAFETY: there is no function to be called.
        let refused = unsafe { HostCall::new("test", HostFunction(None), word) };
        assert_eq!(refused.unwrap_err().status(), Status::INVALID);
    }
}
