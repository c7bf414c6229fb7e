//! How far a command is: asking the driver, and waiting for it.
//!
//! A driver that cannot answer says nothing of the command. So an error here is one of the question,
//! and a command that failed is an answer: only what is known to be over is given back.

use std::ffi::c_void;

use opencl3::event as cl;

use crate::{
    fault::{Fault, Kind},
    handle::CommandEvent,
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
    pub(crate) fn of(status: i32) -> Self {
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

/// How far the command of this event is.
pub(crate) fn progress(command_event: &CommandEvent) -> Result<Progress, Fault> {
    const OPERATION: &str = "clGetEventInfo";
    command_event.driver_state().check(OPERATION)?;
    let info = cl::get_event_info(command_event.raw(), cl::CL_EVENT_COMMAND_EXECUTION_STATUS)
        .map_err(|code| Fault::native(OPERATION, code))?;
    Ok(Progress::of(i32::from(info)))
}

/// Whether the command of this event is known to be over.
pub(crate) fn is_over(command_event: &CommandEvent) -> bool {
    progress(command_event).is_ok_and(|progress| progress.is_over())
}

/// Makes the CPU wait until the command of this event is over.
pub(crate) fn wait_out(command_event: &CommandEvent) -> Result<Progress, Fault> {
    let now = progress(command_event)?;
    if now.is_over() {
        return Ok(now);
    }
    let waited = cl::wait_for_events(&[command_event.raw()]);
    let now = progress(command_event)?;
    match waited {
        // A failure of the command is one of the wait too.
        _ if now.is_over() => Ok(now),
        Ok(()) => Ok(Progress::Done),
        Err(code) => Err(Fault::native("clWaitForEvents", code)),
    }
}

/// Makes the CPU wait until the command is over, and passes its failure on.
pub(crate) fn finish(command_event: &CommandEvent) -> Result<(), Fault> {
    match wait_out(command_event)? {
        Progress::Failed(fault) => Err(fault),
        Progress::Done | Progress::Running => Ok(()),
    }
}

/// Calls `function(word)` on a thread of the driver once `command_event` is done or failed.
pub(crate) fn on_done(
    command_event: &CommandEvent,
    function: extern "C" fn(*mut c_void, i32, *mut c_void),
    word: *mut c_void,
) -> Result<(), Fault> {
    const OPERATION: &str = "clSetEventCallback";
    command_event.driver_state().check(OPERATION)?;
    cl::set_event_callback(command_event.raw(), cl::CL_COMPLETE, function, word)
        .map_err(|code| Fault::native(OPERATION, code))
}

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
