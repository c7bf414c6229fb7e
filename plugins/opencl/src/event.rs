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
    handle::{Gate, Mark},
    promise::{Promise, Promises},
    stream::Stream,
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
    Recorded(Point),
    Host {
        mark: Arc<Mark>,
        promise: Arc<Promise>,
    },
}

/// What waiting for an event takes.
#[derive(Debug, Clone)]
struct Point {
    /// Handed to its device already: a stream flushes each command.
    mark: Arc<Mark>,
    /// Whose context the mark lives in.
    device: Arc<Device>,
    behind: Promises,
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
                promise: Arc::default(),
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
        let (mark, behind) = stream.end()?;
        self.replace(State::Recorded(Point {
            mark,
            device: Arc::clone(&stream.device),
            behind,
        }));
        Ok(())
    }

    /// Makes `stream` wait; the CPU goes on.
    pub(crate) fn hold(&self, stream: &Stream) -> Result<(), Fault> {
        let Some(point) = self.point() else {
            return Ok(());
        };
        if !point.device.shares_context(&stream.device) {
            return Err(Fault::unsupported(
                "stream_wait_event",
                "the event belongs to another context",
            ));
        }
        stream.hold(&point.mark, &point.behind)
    }

    /// Whether it happened.
    pub(crate) fn query(&self) -> Result<bool, Fault> {
        let Some(point) = self.point() else {
            return Ok(true);
        };
        let done = status(&point.mark)?;
        if done {
            point.behind.verdict()?;
        }
        Ok(done)
    }

    /// Makes the CPU wait, at most for `limit`.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<(), Fault> {
        let Some(point) = self.point() else {
            return Ok(());
        };
        synchronize(&point.mark, limit)?;
        point.behind.verdict()
    }

    /// Lets everything go on that waits for a host event.
    pub(crate) fn complete(&self, outcome: Result<(), Fault>) -> Result<(), Fault> {
        let (mark, promise) = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Host { mark, promise } => (Arc::clone(mark), Arc::clone(promise)),
                State::Never | State::Recorded(_) => {
                    return Err(Fault::invalid("event_complete", "not an event of the host"));
                }
            }
        };
        mark.gate().check("clSetUserEventStatus")?;
        // Whoever the driver wakes has to find the outcome.
        if !promise.complete(outcome) {
            return Err(Fault::invalid(
                "event_complete",
                "the event is complete already",
            ));
        }
        cl::set_user_event_status(mark.raw(), cl::CL_COMPLETE)
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
        self.point()
            .filter(|_| !self.is_host())
            .map(|point| point.mark)
    }

    /// What to wait for; none for an event that was never recorded.
    fn point(&self) -> Option<Point> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Never => None,
            State::Recorded(point) => Some(point.clone()),
            State::Host { mark, promise } => Some(Point {
                mark: Arc::clone(mark),
                device: Arc::clone(&self.device),
                behind: Promises::of(promise),
            }),
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
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.is_host() {
            return;
        }
        // One that nobody can complete any more would hang every queue behind it.
        let abandoned = Fault::new(
            Kind::Vendor,
            "event_complete",
            "the event of the host was destroyed before it was completed",
        );
        match self.complete(Err(abandoned)) {
            // Complete already, or nobody's business any more.
            Ok(()) => {}
            Err(fault) if fault.code == 0 => {}
            Err(fault) => self.device.gate().record_late(fault),
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

/// How long a failure that the driver tells nobody of may go unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
