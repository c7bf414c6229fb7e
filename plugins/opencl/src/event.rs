//! Events: points in a stream that other streams wait for and the CPU synchronizes with.
#![expect(
    unsafe_code,
    reason = "the driver hands out raw events and calls back with a raw word"
)]

use std::{
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crossdock_sdk::fence::fence;
use opencl3::event as cl;

use crate::{
    device::Device,
    fault::{Fault, Kind},
    handle::{Gate, Mark, Queue},
    stream::{self, Stream},
};

/// An event of the contract: recorded on a stream, or completed by the host.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: Arc<Device>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Never,
    Recorded {
        mark: Arc<Mark>,
        queue: Arc<Queue>,
    },
    Host {
        mark: Arc<Mark>,
        outcome: Option<Result<(), Fault>>,
    },
}

impl Event {
    /// An event that was never recorded, and so is done.
    pub(crate) fn new(device: &Arc<Device>) -> Self {
        Self {
            device: Arc::clone(device),
            state: Mutex::new(State::Never),
        }
    }

    /// An event that is pending until `complete`.
    pub(crate) fn host(device: &Arc<Device>) -> Result<Self, Fault> {
        const OPERATION: &str = "clCreateUserEvent";
        device.gate().check(OPERATION)?;
        let raw = cl::create_user_event(device.context().raw());
        let mark = Arc::new(take(raw, device.gate(), OPERATION)?);
        Ok(Self {
            device: Arc::clone(device),
            state: Mutex::new(State::Host {
                mark,
                outcome: None,
            }),
        })
    }

    /// Marks the stream's present end.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Fault> {
        if self.is_host() {
            return Err(Fault::invalid(
                "event_record",
                "the event is completed by the host",
            ));
        }
        let mark = stream.mark()?;
        let queue = Arc::clone(&stream.queue);
        self.replace(State::Recorded { mark, queue });
        Ok(())
    }

    /// Makes `stream` wait; the CPU goes on.
    pub(crate) fn hold(&self, stream: &Stream) -> Result<(), Fault> {
        let (Some(mark), queue) = self.marks() else {
            return Ok(());
        };
        if !self.device.shares_context(&stream.device) {
            return Err(Fault::unsupported(
                "stream_wait_event",
                "the event belongs to a platform with another context",
            ));
        }
        // A command that was never handed to its device would hold the other one for ever.
        if let Some(queue) = queue {
            stream::flush(&queue)?;
        }
        stream.hold(&mark)
    }

    /// Whether it happened.
    pub(crate) fn query(&self) -> Result<bool, Fault> {
        match self.marks().0 {
            Some(mark) => status(&mark).map_err(|fault| self.explained(fault)),
            None => Ok(true),
        }
    }

    /// Makes the CPU wait, at most for `limit`.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<(), Fault> {
        let (Some(mark), queue) = self.marks() else {
            return Ok(());
        };
        if let Some(queue) = queue {
            stream::flush(&queue)?;
        }
        synchronize(&mark, limit).map_err(|fault| self.explained(fault))
    }

    /// Lets everything go on that waits for a host event.
    pub(crate) fn complete(&self, outcome: Result<(), Fault>) -> Result<(), Fault> {
        let code = if outcome.is_ok() {
            cl::CL_COMPLETE
        } else {
            FAILED_BY_HOST
        };
        let mark = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                State::Host {
                    mark,
                    outcome: open @ None,
                } => {
                    *open = Some(outcome);
                    Arc::clone(mark)
                }
                State::Host { .. } => {
                    return Err(Fault::invalid(
                        "event_complete",
                        "the event is complete already",
                    ));
                }
                State::Never | State::Recorded { .. } => {
                    return Err(Fault::invalid("event_complete", "not an event of the host"));
                }
            }
        };
        mark.gate().check("clSetUserEventStatus")?;
        cl::set_user_event_status(mark.raw(), code)
            .map_err(|code| Fault::native("clSetUserEventStatus", code))
    }

    /// Nanoseconds between two recorded events; `None` before both happened.
    pub(crate) fn elapsed(start: &Self, end: &Self) -> Result<Option<u64>, Fault> {
        let (Some(from), Some(to)) = (start.recorded(), end.recorded()) else {
            return Err(Fault::invalid(
                "event_elapsed",
                "an event was never recorded on a stream",
            ));
        };
        if !(start.query()? && end.query()?) {
            return Ok(None);
        }
        Ok(Some(time(&to)?.saturating_sub(time(&from)?)))
    }

    fn is_host(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*state, State::Host { .. })
    }

    fn recorded(&self) -> Option<Arc<Mark>> {
        let (mark, queue) = self.marks();
        mark.filter(|_| queue.is_some())
    }

    fn marks(&self) -> (Option<Arc<Mark>>, Option<Arc<Queue>>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Never => (None, None),
            State::Recorded { mark, queue } => (Some(Arc::clone(mark)), Some(Arc::clone(queue))),
            State::Host { mark, .. } => (Some(Arc::clone(mark)), None),
        }
    }

    fn replace(&self, new: State) {
        let old = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, new)
        };
        // Releasing the older mark calls the driver, so the lock is gone by now.
        drop(old);
    }

    /// Puts back the cause that OpenCL loses when a host event fails.
    fn explained(&self, fault: Fault) -> Fault {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Host {
                outcome: Some(Err(cause)),
                ..
            } => cause.clone(),
            State::Host { .. } | State::Never | State::Recorded { .. } => fault,
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let State::Host {
            mark,
            outcome: None,
        } = state
        else {
            return;
        };
        if mark.gate().check("clSetUserEventStatus").is_err() {
            return;
        }
        // One that nobody can complete any more would hang every queue behind it.
        if let Err(code) = cl::set_user_event_status(mark.raw(), FAILED_BY_HOST) {
            mark.gate()
                .record_late(Fault::native("clSetUserEventStatus", code));
        }
    }
}

/// Takes over the event that a driver call answered with.
pub(crate) fn take(
    raw: Result<*mut c_void, i32>,
    gate: &Arc<Gate>,
    operation: &'static str,
) -> Result<Mark, Fault> {
    let raw = raw.map_err(|code| Fault::native(operation, code))?;
    // SAFETY: `adopt` needs null or a live event with a reference to give: the call that answered
    // made it for us.
    unsafe { Mark::adopt(raw, gate, operation) }
}

/// Whether the command behind `mark` is done; its failure is an error.
pub(crate) fn status(mark: &Mark) -> Result<bool, Fault> {
    const OPERATION: &str = "clGetEventInfo";
    mark.gate().check(OPERATION)?;
    let info = cl::get_event_info(mark.raw(), cl::CL_EVENT_COMMAND_EXECUTION_STATUS)
        .map_err(|code| Fault::native(OPERATION, code))?;
    verdict(i32::from(info))
}

/// Makes the CPU wait for `mark`, at most for `limit`.
pub(crate) fn synchronize(mark: &Mark, limit: Option<Duration>) -> Result<(), Fault> {
    if status(mark)? {
        return Ok(());
    }
    let Some(limit) = limit else {
        cl::wait_for_events(&[mark.raw()])
            .or_else(|code| status(mark).and(Err(Fault::native("clWaitForEvents", code))))?;
        return status(mark).map(|_| ());
    };
    let waiter = Arc::new(Waiter::default());
    on_done(
        mark,
        waiter_fired,
        Arc::into_raw(Arc::clone(&waiter)).cast_mut().cast(),
    )
    .inspect_err(|_| {
        let kept = Arc::as_ptr(&waiter);
        // SAFETY: `decrement_strong_count` needs the count that `into_raw` left behind: the
        // driver refused to take it.
        unsafe { Arc::decrement_strong_count(kept) };
    })?;
    waiter.wait(mark, limit)
}

/// Calls `function(word)` on a thread of the driver once `mark` is done or failed.
pub(crate) fn on_done(
    mark: &Mark,
    function: extern "C" fn(*mut c_void, i32, *mut c_void),
    word: *mut c_void,
) -> Result<(), Fault> {
    const OPERATION: &str = "clSetEventCallback";
    mark.gate().check(OPERATION)?;
    cl::set_event_callback(mark.raw(), cl::CL_COMPLETE, function, word)
        .map_err(|code| Fault::native(OPERATION, code))
}

/// Where a thread sleeps until the driver says that an event is done.
#[derive(Debug, Default)]
struct Waiter {
    status: Mutex<Option<i32>>,
    told: Condvar,
}

impl Waiter {
    /// Sleeps until told. PoCL 3 tells nobody of a command that fails, so the status is asked for
    /// now and then as well.
    fn wait(&self, mark: &Mark, limit: Duration) -> Result<(), Fault> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(told) = self.sleep(deadline.map_or(LOOK_AGAIN, time_left)) {
                return verdict(told).map(drop);
            }
            if status(mark)? {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| time_left(deadline).is_zero()) {
                return Err(Fault::new(
                    Kind::Timeout,
                    "synchronize",
                    format!("the work was not done within {limit:?}"),
                ));
            }
        }
    }

    /// Sleeps for `left` at most; answers with what was told.
    fn sleep(&self, left: Duration) -> Option<i32> {
        let told = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self
            .told
            .wait_timeout_while(told, left.min(LOOK_AGAIN), |told| told.is_none());
        *woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Waiter {
    fn tell(&self, status: i32) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.told.notify_all();
    }
}

fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

extern "C" fn waiter_fired(_event: *mut c_void, status: i32, word: *mut c_void) {
    // SAFETY: `from_raw` needs a count that `into_raw` left behind: `synchronize` gave it to the
    // driver, which calls once.
    let waiter = unsafe { Arc::from_raw(word.cast_const().cast::<Waiter>()) };
    let _caught = fence(|| waiter.tell(status));
}

/// Done, pending, or the failure that a negative status stands for.
fn verdict(status: i32) -> Result<bool, Fault> {
    if status < 0 {
        return Err(Fault {
            kind: Kind::Vendor,
            ..Fault::native("command", status)
        });
    }
    Ok(status == cl::CL_COMPLETE)
}

/// When the device finished the command, in nanoseconds of its own clock.
fn time(mark: &Mark) -> Result<u64, Fault> {
    let info = cl::get_event_profiling_info(mark.raw(), cl::CL_PROFILING_COMMAND_END)
        .map_err(|code| Fault::native("clGetEventProfilingInfo", code))?;
    Ok(u64::from(info))
}

/// What a host event that fails is set to; OpenCL keeps the sign and not the number.
const FAILED_BY_HOST: i32 = -1;

/// How long a failure that the driver tells nobody of may go unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
