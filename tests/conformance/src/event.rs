//! Events that give themselves back.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{EventHandle, Status};

use crate::case::{Unmet, failed, status_of};

/// The longest wait of the suite; a wait that needs it has failed.
pub(crate) const LIMIT_NS: u64 = 20_000_000_000;
/// A wait that is meant to end by its limit.
pub(crate) const SHORT_NS: u64 = 2_000_000;

/// How long a call may take that waits for nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a call that may wait is given to begin with that.
const MOMENT: Duration = Duration::from_millis(20);

/// An event that is recorded on streams; destroyed when dropped.
#[derive(Debug)]
pub(crate) struct Event<'h> {
    hooks: &'h Hooks,
    handle: EventHandle,
}

impl<'h> Event<'h> {
    pub(crate) fn create(hooks: &'h Hooks, device: u32) -> Result<Self, Error> {
        Ok(Self {
            hooks,
            handle: hooks.event_create(device)?,
        })
    }

    pub(crate) const fn handle(&self) -> EventHandle {
        self.handle
    }

    pub(crate) fn query(&self) -> Result<(), Error> {
        self.hooks.event_query(self.handle)
    }

    pub(crate) fn synchronize(&self, timeout_ns: u64) -> Result<(), Error> {
        self.hooks.event_synchronize(self.handle, timeout_ns)
    }

    pub(crate) fn elapsed_until(&self, end: &Self) -> Result<u64, Error> {
        self.hooks.event_elapsed(self.handle, end.handle)
    }

    /// Destroys the event, and says what the hook answered.
    pub(crate) fn destroy(mut self) -> Result<(), Error> {
        let handle = std::mem::take(&mut self.handle);
        self.hooks.event_destroy(handle)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if !self.handle.is_none() {
            note(self.hooks.event_destroy(self.handle));
        }
    }
}

/// An event that the host completes; completed and destroyed when dropped.
#[derive(Debug)]
pub(crate) struct HostEvent<'h> {
    event: Event<'h>,
    open: bool,
}

impl<'h> HostEvent<'h> {
    pub(crate) fn create(hooks: &'h Hooks, device: u32) -> Result<Self, Error> {
        let handle = hooks.event_create_host(device)?;
        Ok(Self {
            event: Event { hooks, handle },
            open: false,
        })
    }

    pub(crate) const fn event(&self) -> &Event<'h> {
        &self.event
    }

    pub(crate) fn complete(&mut self, status: Status) -> Result<(), Error> {
        let answer = self.event.hooks.event_complete(self.event.handle, status);
        self.open |= answer.is_ok();
        answer
    }
}

impl HostEvent<'_> {
    /// Makes a call that has to return while the event is pending. One that does not would wait for ever, so
    /// the event is completed then, and the call has failed.
    pub(crate) fn pending_during<T>(
        &mut self,
        what: &str,
        call: impl FnOnce() -> T,
    ) -> Result<T, Unmet> {
        let (answer, has_waited) = self.completed_beside(PATIENCE, call)?;
        if has_waited {
            return failed(format!(
                "{what} did not return until the host let the stream go on"
            ));
        }
        Ok(answer)
    }

    /// Makes a call that may wait for the event, which is completed after a moment or behind the call.
    pub(crate) fn completed_during<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, Unmet> {
        let (answer, has_waited) = self.completed_beside(MOMENT, call)?;
        if !has_waited {
            self.complete(Status::OK)?;
        }
        Ok(answer)
    }

    /// Makes a call, and completes the event where the call has not returned in time. Says whether.
    fn completed_beside<T>(
        &mut self,
        limit: Duration,
        call: impl FnOnce() -> T,
    ) -> Result<(T, bool), Unmet> {
        let (returned, is_over) = mpsc::channel();
        let (answer, waited) = std::thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let waited = is_over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if waited {
                    self.complete(Status::OK).map(|()| true)
                } else {
                    Ok(false)
                }
            });
            let answer = call();
            // The watch may have ended before.
            let _told = returned.send(());
            (answer, watch.join())
        });
        let Ok(waited) = waited else {
            return failed("a thread of the suite panicked");
        };
        Ok((answer, waited?))
    }

    /// Destroys the event while it is pending, and says what the hook answered.
    pub(crate) fn destroy(mut self) -> Result<(), Error> {
        self.open = true;
        let handle = std::mem::take(&mut self.event.handle);
        self.event.hooks.event_destroy(handle)
    }
}

impl Drop for HostEvent<'_> {
    fn drop(&mut self) {
        // Work behind it would hang for ever, so a check that ended early opens it too.
        if !self.open {
            note(self.complete(Status::OK));
        }
    }
}

/// Asks until the answer is another one than that there is work, for as long as the suite waits.
pub(crate) fn once_over(ask: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        let answer = ask();
        let is_pending = [Status::NOT_READY, Status::TIMEOUT].contains(&status_of(&answer));
        if !is_pending || start.elapsed() > Duration::from_nanos(LIMIT_NS) {
            return answer;
        }
        std::thread::yield_now();
    }
}

/// Writes a failure that nobody gets otherwise to the log.
pub(crate) fn note(answer: Result<(), Error>) {
    if let Err(error) = answer {
        log::warn!(target: "crossdock::stream", "{error}: {}", error.why());
    }
}
