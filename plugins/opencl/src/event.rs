//! Events: points in a stream that other streams wait for and the CPU synchronizes with.
#![expect(unsafe_code, reason = "the driver hands out raw events")]

use std::{
    ffi::c_void,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use opencl3::event as cl;

use crate::{
    awaited::Awaited,
    device::Device,
    fault::{Fault, Kind},
    handle::{CommandEvent, DriverState},
    progress::{Progress, progress},
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
        end: Arc<Awaited>,
        promise: Arc<Promise>,
    },
}

/// What waiting for an event takes.
#[derive(Debug, Clone)]
struct Point {
    /// Handed to its device already: a stream flushes each command.
    end: Arc<Awaited>,
    /// Whose context the event lives in.
    device: Arc<Device>,
    /// The queue that it was recorded on.
    queue: Option<u64>,
    host_events: Promises,
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
        device.driver_state().check(OPERATION)?;
        let raw = cl::create_user_event(device.context().raw());
        let command_event = Arc::new(take(raw, device.driver_state(), OPERATION)?);
        Ok(Self {
            device: Arc::clone(device),
            state: Mutex::new(State::Host {
                end: Arc::new(Awaited::new(command_event)),
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
        let (command_event, host_events) = stream.end()?;
        self.replace(State::Recorded(Point {
            end: Arc::new(Awaited::new(command_event)),
            device: Arc::clone(&stream.device),
            queue: Some(stream.queue.word()),
            host_events,
        }));
        Ok(())
    }

    /// Makes `stream` wait; the CPU goes on.
    pub(crate) fn make_wait(&self, stream: &Stream) -> Result<(), Fault> {
        let Some(point) = self.point() else {
            return Ok(());
        };
        if !point.device.shares_context(&stream.device) {
            return Err(Fault::unsupported(
                "stream_wait_event",
                "the event belongs to another context",
            ));
        }
        stream.wait_point(&point.end.command_event, &point.host_events)
    }

    /// How far the work before it is.
    pub(crate) fn query(&self) -> Result<Progress, Fault> {
        let Some(point) = self.point() else {
            return Ok(Progress::Done);
        };
        let now = progress(&point.end.command_event)?;
        Ok(now.and(|| point.host_events.verdict()))
    }

    /// Makes the CPU wait, at most for `limit`.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<Progress, Fault> {
        let Some(point) = self.point() else {
            return Ok(Progress::Done);
        };
        let ended = point.end.wait(limit)?;
        Ok(ended.and(|| point.host_events.verdict()))
    }

    /// Lets everything go on that waits for a host event.
    pub(crate) fn complete(&self, outcome: Result<(), Fault>) -> Result<(), Fault> {
        const OPERATION: &str = "event_complete";
        let (command_event, promise) = self
            .promised()
            .ok_or_else(|| Fault::invalid(OPERATION, "not an event of the host"))?;
        if tell(&command_event, &promise, outcome)? {
            Ok(())
        } else {
            Err(Fault::invalid(OPERATION, "the event is complete already"))
        }
    }

    /// Fails those who still wait for a host event, which nobody can complete any more.
    pub(crate) fn abandon(&self) -> Result<(), Fault> {
        let Some((command_event, promise)) = self.promised() else {
            return Ok(());
        };
        let abandoned = Fault::new(
            Kind::Vendor,
            "event_complete",
            "the event of the host was destroyed before it was completed",
        );
        // One that is complete stays as it is.
        tell(&command_event, &promise, Err(abandoned)).map(drop)
    }

    /// Nanoseconds between two recorded events; `None` before both happened.
    pub(crate) fn elapsed(start: &Self, end: &Self) -> Result<Option<u64>, Fault> {
        let (Some(from), Some(to)) = (start.recorded(), end.recorded()) else {
            return Err(Fault::invalid(
                "event_elapsed",
                "an event was never recorded on a stream",
            ));
        };
        for event in [start, end] {
            match event.query()? {
                Progress::Done => {}
                Progress::Running => return Ok(None),
                Progress::Failed(fault) => return Err(fault),
            }
        }
        let elapsed = time(&to)?.checked_sub(time(&from)?);
        elapsed.map(Some).ok_or_else(|| {
            let why = "the second event happened before the first";
            Fault::invalid("event_elapsed", why)
        })
    }

    /// The queue that it was recorded on last.
    pub(crate) fn queue(&self) -> Option<u64> {
        self.point()?.queue
    }

    fn is_host(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*state, State::Host { .. })
    }

    /// What the host completes, where this is such an event.
    fn promised(&self) -> Option<(Arc<CommandEvent>, Arc<Promise>)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Host { end, promise } => {
                Some((Arc::clone(&end.command_event), Arc::clone(promise)))
            }
            State::Never | State::Recorded(_) => None,
        }
    }

    fn recorded(&self) -> Option<Arc<CommandEvent>> {
        self.point()
            .filter(|_| !self.is_host())
            .map(|point| Arc::clone(&point.end.command_event))
    }

    /// What to wait for; none for an event that was never recorded.
    fn point(&self) -> Option<Point> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Never => None,
            State::Recorded(point) => Some(point.clone()),
            State::Host { end, promise } => Some(Point {
                end: Arc::clone(end),
                device: Arc::clone(&self.device),
                queue: None,
                host_events: Promises::of(promise),
            }),
        }
    }

    fn replace(&self, new: State) {
        let old = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, new)
        };
        // Releasing the older event calls the driver, so the lock is gone by now.
        drop(old);
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // At close nobody destroyed it, and every queue behind it would hang.
        if self.device.driver_state().check("event_destroy").is_ok()
            && let Err(fault) = self.abandon()
        {
            self.device.driver_state().record_late(fault);
        }
    }
}

/// Completes what the host promised; `false` when it was complete already.
fn tell(
    command_event: &CommandEvent,
    promise: &Promise,
    outcome: Result<(), Fault>,
) -> Result<bool, Fault> {
    const OPERATION: &str = "clSetUserEventStatus";
    command_event.driver_state().check(OPERATION)?;
    promise.complete(outcome, || {
        cl::set_user_event_status(command_event.raw(), cl::CL_COMPLETE)
            .map_err(|code| Fault::native(OPERATION, code))
    })
}

/// Takes over the event that a driver call answered with.
pub(crate) fn take(
    raw: Result<*mut c_void, i32>,
    driver_state: &Arc<DriverState>,
    operation: &'static str,
) -> Result<CommandEvent, Fault> {
    let raw = raw.map_err(|code| Fault::native(operation, code))?;
    // SAFETY: `adopt` needs null or a live event with a reference to give: the call that answered
    // made it for us.
    unsafe { CommandEvent::adopt(raw, driver_state, operation) }
}

/// What a driver answers for the times of a queue that measures none (`CL_PROFILING_INFO_NOT_AVAILABLE`).
const NOT_AVAILABLE: i32 = -7;

/// When the device finished the command, in nanoseconds of its own clock.
fn time(command_event: &CommandEvent) -> Result<u64, Fault> {
    let info = cl::get_event_profiling_info(command_event.raw(), cl::CL_PROFILING_COMMAND_END)
        .map_err(|code| match code {
            NOT_AVAILABLE => Fault::unsupported(
                "clGetEventProfilingInfo",
                "the queue measures no times: it was made without CL_QUEUE_PROFILING_ENABLE",
            ),
            code => Fault::native("clGetEventProfilingInfo", code),
        })?;
    Ok(u64::from(info))
}
