//! How far a command is: asking the driver, and waiting for it.
//!
//! A driver that cannot answer says nothing of the command. So an error here is one of the question,
//! and a command that failed is an answer: only what is known to be over is given back.
#![expect(unsafe_code, reason = "the driver calls back with a raw word")]

use std::{
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crossdock_sdk::fence::fence;
use opencl3::event as cl;

use crate::{
    fault::{Fault, Kind},
    handle::Mark,
};

/// How far a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It may still run.
    Running,
    /// It is over, and did what it was asked to.
    Done,
    /// It is over, and failed.
    Failed(Fault),
}

impl Progress {
    /// Whether nothing of the command's runs any more.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }

    /// The same with what else may have failed, where the command itself is done.
    pub(crate) fn and(self, verdict: impl FnOnce() -> Result<(), Fault>) -> Self {
        match self {
            Self::Done => verdict().map_or_else(Self::Failed, |()| Self::Done),
            other => other,
        }
    }

    /// What the driver's number stands for.
    fn of(status: i32) -> Self {
        match status {
            cl::CL_COMPLETE => Self::Done,
            1.. => Self::Running,
            // Negative numbers are errors of the command.
            _ => Self::Failed(Fault {
                kind: Kind::Vendor,
                ..Fault::native("command", status)
            }),
        }
    }
}

/// How far the command behind `mark` is.
pub(crate) fn progress(mark: &Mark) -> Result<Progress, Fault> {
    const OPERATION: &str = "clGetEventInfo";
    mark.gate().check(OPERATION)?;
    let info = cl::get_event_info(mark.raw(), cl::CL_EVENT_COMMAND_EXECUTION_STATUS)
        .map_err(|code| Fault::native(OPERATION, code))?;
    Ok(Progress::of(i32::from(info)))
}

/// Whether the command behind `mark` is known to be over.
pub(crate) fn is_over(mark: &Mark) -> bool {
    progress(mark).is_ok_and(|progress| progress.is_over())
}

/// Makes the CPU wait for `mark`, at most for `limit`, after which it is still running.
pub(crate) fn synchronize(mark: &Mark, limit: Option<Duration>) -> Result<Progress, Fault> {
    let now = progress(mark)?;
    if now.is_over() {
        return Ok(now);
    }
    let Some(limit) = limit else {
        return wait_out(mark);
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

/// Makes the CPU wait until the command is over, and passes its failure on.
pub(crate) fn finish(mark: &Mark) -> Result<(), Fault> {
    match synchronize(mark, None)? {
        Progress::Failed(fault) => Err(fault),
        Progress::Done | Progress::Running => Ok(()),
    }
}

fn wait_out(mark: &Mark) -> Result<Progress, Fault> {
    let waited = cl::wait_for_events(&[mark.raw()]);
    let now = progress(mark)?;
    match waited {
        // A failure of the command is one of the wait too.
        _ if now.is_over() => Ok(now),
        Ok(()) => Ok(Progress::Done),
        Err(code) => Err(Fault::native("clWaitForEvents", code)),
    }
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
    fn wait(&self, mark: &Mark, limit: Duration) -> Result<Progress, Fault> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(told) = self.sleep(deadline.map_or(LOOK_AGAIN, time_left)) {
                return Ok(Progress::of(told));
            }
            let now = progress(mark)?;
            let is_late = deadline.is_some_and(|deadline| time_left(deadline).is_zero());
            if now.is_over() || is_late {
                return Ok(now);
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

/// How long a failure that the driver tells nobody of may go unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_that_ended_is_over() {
        for waiting in [cl::CL_QUEUED, cl::CL_SUBMITTED, cl::CL_RUNNING, 4] {
            assert_eq!(Progress::of(waiting), Progress::Running);
            assert!(!Progress::of(waiting).is_over());
        }
        assert_eq!(Progress::of(cl::CL_COMPLETE), Progress::Done);
        for failed in [-1, -5, -14, i32::MIN] {
            let Progress::Failed(fault) = Progress::of(failed) else {
                panic!("{failed} is a failure");
            };
            assert_eq!((fault.kind, fault.code), (Kind::Vendor, failed));
        }
    }
}
