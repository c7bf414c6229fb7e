//! Host functions on a stream, each of which runs exactly once, also behind a failure.
#![expect(
    unsafe_code,
    reason = "the function and its word are the caller's, and the driver calls back with a raw word"
)]

use std::{
    ffi::c_void,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crossdock_sdk::fence::fence;

use crate::{
    fault::Fault,
    handle::Mark,
    progress::{Progress, on_done, progress},
    stream::Stream,
};

/// The host functions that have not run yet.
///
/// PoCL 3 forgets the callbacks of a command that fails, so those that wait are looked through
/// whenever a failure is seen.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    pending: Mutex<Vec<(Arc<Mark>, Arc<HostCall>)>>,
}

impl HostCalls {
    /// Runs `function(word)` when `stream` gets there.
    ///
    /// # Safety
    /// `function` may be called once with `word`, on any thread.
    pub(crate) unsafe fn queue(
        &self,
        stream: &Stream,
        function: unsafe extern "C" fn(*mut c_void),
        word: *mut c_void,
    ) -> Result<(), Fault> {
        let mark = stream.mark()?;
        let call = Arc::new(HostCall {
            function,
            word,
            begun: AtomicBool::new(false),
        });
        let carried = Arc::into_raw(Arc::clone(&call));
        on_done(&mark, run_host_call, carried.cast_mut().cast()).inspect_err(|_| {
            // SAFETY: `decrement_strong_count` needs the count that `into_raw` left behind: the
            // driver refused to take it.
            unsafe { Arc::decrement_strong_count(carried) };
        })?;
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((mark, call));
        self.sweep();
        Ok(())
    }

    /// Runs those whose command failed, and forgets those that ran.
    pub(crate) fn sweep(&self) {
        let older = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *pending)
        };
        let mut waiting = Vec::new();
        for (mark, call) in older {
            if mark.gate().check("stream_host_call").is_err() {
                continue;
            }
            match progress(&mark) {
                Ok(Progress::Done) => {}
                Ok(Progress::Failed(_)) => call.run(),
                // What cannot be told may still come.
                Ok(Progress::Running) | Err(_) => waiting.push((mark, call)),
            }
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.append(&mut waiting);
    }
}

/// A host function on its way through a stream.
#[derive(Debug)]
struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    word: *mut c_void,
    begun: AtomicBool,
}

// SAFETY: the caller of `queue` promised that the function may run on any thread with its word.
unsafe impl Send for HostCall {}
// SAFETY: as above; `begun` lets one thread only run it.
unsafe impl Sync for HostCall {}

impl HostCall {
    fn run(&self) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        // SAFETY: the function may be called once with its word, on any thread: the caller of
        // `queue` promised it, and `begun` was clear.
        unsafe { (self.function)(self.word) };
    }
}

extern "C" fn run_host_call(_event: *mut c_void, _status: i32, carried: *mut c_void) {
    // SAFETY: `from_raw` needs a count that `into_raw` left behind: `queue` gave it to the driver,
    // which calls at most once.
    let call = unsafe { Arc::from_raw(carried.cast_const().cast::<HostCall>()) };
    let _caught = fence(|| call.run());
}
