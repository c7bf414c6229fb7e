//! Host functions on a stream. Each runs exactly once, unless the process exits: where the driver of a lost device no
//! longer calls it, it is run from here.
#![expect(unsafe_code, reason = "the driver calls back with a raw user_data")]

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex};

use crossdock_sdk::fence::fence;

use crate::current::Entered;
use crate::device::locked;
use crate::driver::Process;
use crate::fault::Fault;
use crate::vendor::Vendor;

/// A function for a stream to call. It must call no hook and no function of the driver.
pub(crate) type Function = Box<dyn FnOnce() + Send>;

/// The functions of a device that have not run yet.
#[derive(Debug)]
pub(crate) struct Calls {
    process: Arc<Process>,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    calls: Vec<Arc<Call>>,
    /// At this many calls, those that ran are removed.
    room: usize,
}

impl Calls {
    pub(crate) fn new(process: &Arc<Process>) -> Self {
        Self {
            process: Arc::clone(process),
            pending: Mutex::new(Pending {
                calls: Vec::new(),
                room: LEAST_ROOM,
            }),
        }
    }

    /// Runs `function` when the stream gets there. Where this returns an error, it never runs.
    pub(crate) fn put<V: Vendor>(
        &self,
        inside: &Entered<'_, V>,
        stream: u64,
        function: Function,
    ) -> Result<(), Fault> {
        let call = Arc::new(Call {
            process: Arc::clone(&self.process),
            function: Mutex::new(Some(function)),
        });
        self.remember(&call);
        let user_data = Arc::into_raw(Arc::clone(&call)).cast_mut();
        // SAFETY: `run_call` may be called once with a reference of the call's, on any thread.
        let put = unsafe { inside.vendor().call(stream, run_call, user_data.cast()) };
        let Err(code) = put else { return Ok(()) };
        // SAFETY: the reference that `into_raw` gave away, which the driver did not take.
        unsafe { Arc::decrement_strong_count(user_data.cast_const()) };
        // Before it is asked whether the device is lost, which runs all that are remembered.
        let taken = call.take();
        let fault = inside.fault(code);
        // Another thread that found the loss may have run it.
        taken.map_or(Ok(()), |_never_runs| Err(fault))
    }

    fn remember(&self, call: &Arc<Call>) {
        let mut pending = locked(&self.pending);
        if pending.calls.len() >= pending.room {
            pending.calls.retain(|call| !call.has_run());
            pending.room = (2 * pending.calls.len()).max(LEAST_ROOM);
        }
        pending.calls.push(Arc::clone(call));
    }

    /// Runs those that have not run, in the order in which they came: the device is lost, and its driver calls no more.
    pub(crate) fn run_all(&self) {
        let calls = std::mem::take(&mut locked(&self.pending).calls);
        for call in calls {
            let _caught = fence(|| call.run());
        }
    }
}

/// A function until it runs: the driver calls it, or `run_all` does.
struct Call {
    process: Arc<Process>,
    function: Mutex<Option<Function>>,
}

impl Call {
    fn take(&self) -> Option<Function> {
        locked(&self.function).take()
    }

    fn has_run(&self) -> bool {
        locked(&self.function).is_none()
    }

    /// Runs it, unless it ran or the process exits.
    fn run(&self) {
        if self.process.check("stream_host_call").is_ok()
            && let Some(function) = self.take()
        {
            function();
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

unsafe extern "C" fn run_call(user_data: *mut c_void) {
    // SAFETY: the reference that `put` gave to the driver, which calls at most once.
    let call = unsafe { Arc::from_raw(user_data.cast_const().cast::<Call>()) };
    let _caught = fence(|| call.run());
}

const LEAST_ROOM: usize = 64;
