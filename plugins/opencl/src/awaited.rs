//! A command that threads wait for with a limit. A thread that waits again and again leaves one callback with
//! the driver, which keeps each until the command is over.
#![expect(unsafe_code, reason = "the driver calls back with a raw word")]

use std::{
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use crossdock_sdk::{deadline::Deadline, fence::fence};

use crate::{
    fault::Fault,
    handle::CommandEvent,
    progress::{Progress, on_done, progress, wait_out},
};

/// A command, and where threads sleep until it is over.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) command_event: Arc<CommandEvent>,
    /// There once the driver was asked to tell when the command is over.
    waiter: OnceLock<Arc<Waiter>>,
}

impl Awaited {
    pub(crate) const fn new(command_event: Arc<CommandEvent>) -> Self {
        Self {
            command_event,
            waiter: OnceLock::new(),
        }
    }

    /// Makes the CPU wait, at most for `limit`; `Running` where the command is not over by then.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Result<Progress, Fault> {
        let Some(limit) = limit else {
            return wait_out(&self.command_event);
        };
        let now = progress(&self.command_event)?;
        if now.is_over() || limit.is_zero() {
            return Ok(now);
        }
        self.waiter()?.wait(&self.command_event, limit)
    }

    /// Where the driver tells of the command, which it is asked to at the first call. Two threads that are
    /// the first leave two callbacks, and both sleep at one of the waiters.
    fn waiter(&self) -> Result<&Waiter, Fault> {
        if let Some(known) = self.waiter.get() {
            return Ok(known);
        }
        let waiter = Arc::new(Waiter::default());
        let word = Arc::into_raw(Arc::clone(&waiter)).cast_mut();
        on_done(&self.command_event, waiter_fired, word.cast()).inspect_err(|_| {
            // SAFETY: `decrement_strong_count` needs the count that `into_raw` left behind: the
            // driver refused to take it.
            unsafe { Arc::decrement_strong_count(word.cast_const()) };
        })?;
        Ok(self.waiter.get_or_init(|| waiter))
    }
}

/// Where threads sleep until the driver says that a command is over.
#[derive(Debug, Default)]
struct Waiter {
    status: Mutex<Option<i32>>,
    told: Condvar,
}

impl Waiter {
    /// Sleeps until told. PoCL 3 tells nobody of a command that fails, so the status is asked for
    /// now and then as well.
    fn wait(&self, command_event: &CommandEvent, limit: Duration) -> Result<Progress, Fault> {
        let deadline = Deadline::after(Some(limit));
        loop {
            let slice = deadline.at_most(LOOK_AGAIN);
            let told = *slice.wait_while(&self.told, self.status(), |told| told.is_none());
            if let Some(told) = told {
                return Ok(Progress::of(told));
            }
            let now = progress(command_event)?;
            if now.is_over() || deadline.is_over() {
                return Ok(now);
            }
        }
    }

    fn tell(&self, status: i32) {
        *self.status() = Some(status);
        self.told.notify_all();
    }

    fn status(&self) -> MutexGuard<'_, Option<i32>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

extern "C" fn waiter_fired(_event: *mut c_void, status: i32, word: *mut c_void) {
    // SAFETY: `from_raw` needs a count that `into_raw` left behind: `Awaited::waiter` gave it to the
    // driver, which calls once.
    let waiter = unsafe { Arc::from_raw(word.cast_const().cast::<Waiter>()) };
    let _caught = fence(|| waiter.tell(status));
}

/// How long a failure that the driver tells nobody of may go unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
