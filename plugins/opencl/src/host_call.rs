//! Host functions on a stream, each of which runs exactly once, also behind a failure.
#![expect(unsafe_code, reason = "the driver calls back with a raw word")]

use std::{
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crossdock_sdk::{fence::fence, plugin::HostCall};

use crate::{
    fault::Fault,
    handle::{CommandEvent, DriverState},
    progress::{Progress, on_done, progress},
    stream::Stream,
};

/// The host functions that have not run yet.
///
/// PoCL 3 forgets the callbacks of a command that fails, so those that wait are looked through
/// whenever a failure is seen; the host asks for one from time to time (`POLLED_HOST_CALLS`).
#[derive(Debug, Default)]
pub(crate) struct HostCalls(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    calls: Vec<(Arc<CommandEvent>, Arc<Once>)>,
    /// At this many calls, those that ran are removed.
    room: usize,
}

const LEAST_ROOM: usize = 64;

impl HostCalls {
    /// Runs `call` when `stream` gets there.
    pub(crate) fn queue(&self, stream: &Stream, call: HostCall) -> Result<(), Fault> {
        let command_event = stream.marker()?;
        let call = Arc::new(Once {
            driver_state: Arc::clone(command_event.driver_state()),
            state: Mutex::new(CallState {
                call: Some(call),
                is_over: false,
            }),
            ended: Condvar::new(),
        });
        let carried = Arc::into_raw(Arc::clone(&call));
        on_done(&command_event, run_host_call, carried.cast_mut().cast()).inspect_err(|_| {
            // SAFETY: `decrement_strong_count` needs the count that `into_raw` left behind: the
            // driver refused to take it.
            unsafe { Arc::decrement_strong_count(carried) };
        })?;
        let is_full = {
            let mut pending = self.pending();
            pending
                .calls
                .push((Arc::clone(&command_event), Arc::clone(&call)));
            pending.calls.len() > pending.room.max(LEAST_ROOM)
        };
        if is_full {
            self.sweep();
        } else if let Ok(Progress::Failed(_)) = progress(&command_event) {
            // It may have failed before the driver had the callback.
            call.run();
        }
        Ok(())
    }

    /// Runs those whose command failed, and forgets those that ran.
    pub(crate) fn sweep(&self) {
        let older = std::mem::take(&mut self.pending().calls);
        let mut waiting = Vec::new();
        for (command_event, call) in older {
            if command_event
                .driver_state()
                .check("stream_host_call")
                .is_err()
            {
                continue;
            }
            match progress(&command_event) {
                Ok(Progress::Done) => {}
                Ok(Progress::Failed(_)) => call.run(),
                // What cannot be told may still come.
                Ok(Progress::Running) | Err(_) => waiting.push((command_event, call)),
            }
        }
        let mut pending = self.pending();
        pending.calls.append(&mut waiting);
        pending.room = 2 * pending.calls.len();
    }

    /// Waits for those whose command is over, and runs those whose command failed.
    pub(crate) fn finish(&self) {
        let calls = std::mem::take(&mut self.pending().calls);
        for (command_event, call) in calls {
            match progress(&command_event) {
                // The driver calls it.
                Ok(Progress::Done) => call.wait(),
                Ok(Progress::Failed(_)) => {
                    call.run();
                    call.wait();
                }
                Ok(Progress::Running) | Err(_) => {}
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host function until it runs: the driver may tell of its command, and so may its failure be seen.
/// Once the process exits it does not run any more.
#[derive(Debug)]
struct Once {
    driver_state: Arc<DriverState>,
    state: Mutex<CallState>,
    ended: Condvar,
}

#[derive(Debug)]
struct CallState {
    /// None once it began.
    call: Option<HostCall>,
    is_over: bool,
}

impl Once {
    fn run(&self) {
        if self.driver_state.check("stream_host_call").is_err() {
            return;
        }
        let call = self.state().call.take();
        // The lock is gone by now.
        if let Some(call) = call {
            call.run();
            self.state().is_over = true;
            self.ended.notify_all();
        }
    }

    /// Waits until it has run; not once the process exits.
    fn wait(&self) {
        let goes_on = |state: &mut CallState| {
            !state.is_over && self.driver_state.check("stream_host_call").is_ok()
        };
        drop(self.ended.wait_while(self.state(), goes_on));
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

extern "C" fn run_host_call(_event: *mut c_void, _status: i32, carried: *mut c_void) {
    // SAFETY: `from_raw` needs a count that `into_raw` left behind: `queue` gave it to the driver,
    // which calls at most once.
    let call = unsafe { Arc::from_raw(carried.cast_const().cast::<Once>()) };
    let _caught = fence(|| call.run());
}
