//! Waits inside a plugin, in slices: between two of them it is seen whether the plugin is still called.
//!
//! What work waits for may be completed by the host, through a hook. Once a hook panicked, none is
//! called any more, so a thread that waits without a limit inside another hook would wait for ever.
#![expect(unsafe_code, reason = "ends registrations of host memory")]

use std::ffi::c_void;
use std::time::{Duration, Instant};

use crossdock_sdk::abi::{EventHandle, Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;

/// How long the first slice is; each later one is twice as long as the one before.
pub(crate) const FIRST: Duration = Duration::from_millis(250);

/// No slice is longer: so late may a thread learn that its plugin is not called any more.
const LONGEST: Duration = Duration::from_secs(1);

/// Between two questions.
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

impl Hooks {
    /// Blocks the calling thread until a stream's work is done; `None` is no limit.
    ///
    /// # Errors
    /// What the hook answered, `TIMEOUT` only after the limit; why the plugin is not called any more.
    pub(crate) fn synchronize_stream(
        &self,
        stream: StreamHandle,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        in_slices(limit, |slice| {
            self.stream_synchronize(stream, nanoseconds(slice))
        })
    }

    /// Blocks the calling thread until a stream's work is over, failed or not.
    ///
    /// # Errors
    /// `TIMEOUT`, or what the hook answered where that does not say whether the work is over.
    pub(crate) fn wait_until_over(
        &self,
        stream: StreamHandle,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.wait_until_over_by(stream, deadline, |wait| wait())
    }

    /// As [`Hooks::wait_until_over`]. The wait that may tell of a failure is made by `tell`.
    pub(crate) fn wait_until_over_by(
        &self,
        stream: StreamHandle,
        deadline: Deadline,
        tell: impl FnOnce(&dyn Fn() -> Result<(), Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match tell(&|| self.synchronize_stream(stream, deadline.left())) {
            // A failure of the work is told once; what is told again is one of the wait.
            Err(error) if error.status() != Some(Status::TIMEOUT) => {
                self.synchronize_stream(stream, deadline.left())
            }
            over => over,
        }
    }

    /// Whether a stream's work is done.
    ///
    /// # Errors
    /// As [`Hooks::stream_query`], but for `NOT_READY`, which is no failure.
    pub(crate) fn is_idle(&self, stream: StreamHandle) -> Result<bool, Error> {
        is_ready(self.stream_query(stream))
    }

    /// Whether an event happened.
    ///
    /// # Errors
    /// As [`Hooks::event_query`], but for `NOT_READY`, which is no failure.
    pub(crate) fn has_happened(&self, event: EventHandle) -> Result<bool, Error> {
        is_ready(self.event_query(event))
    }

    /// Ends a registration, and says whether it has ended: false while work needs it.
    ///
    /// # Errors
    /// As [`Hooks::unregister_host`], but for `NOT_READY`, which is not a failure.
    ///
    /// # Safety
    /// As [`Hooks::unregister_host`].
    pub(crate) unsafe fn try_unregister_host(
        &self,
        device: u32,
        pointer: *mut c_void,
    ) -> Result<bool, Error> {
        // SAFETY: as the caller of this promises.
        is_ready(unsafe { self.unregister_host(device, pointer) })
    }

    /// Blocks the calling thread until an event happened; `None` is no limit.
    ///
    /// # Errors
    /// As [`Hooks::synchronize_stream`].
    pub(crate) fn synchronize_event(
        &self,
        event: EventHandle,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        in_slices(limit, |slice| {
            self.event_synchronize(event, nanoseconds(slice))
        })
    }
}

/// Waits by `wait`, which takes a limit, until it answers anything but that a slice passed.
fn in_slices(
    limit: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Result<(), Error>,
) -> Result<(), Error> {
    let begun = Instant::now();
    let mut slice = FIRST;
    loop {
        let at = begun.elapsed();
        let left = limit.map(|limit| limit.saturating_sub(at));
        if let Some(left) = left.filter(|left| *left <= slice) {
            return wait(left);
        }
        let answer = wait(slice);
        let passed = begun.elapsed().saturating_sub(at);
        match answer {
            // A timeout that comes much too early is the answer: asking again at once might never end.
            Err(error) if error.status() == Some(Status::TIMEOUT) && passed >= slice / 2 => {}
            answer => return answer,
        }
        slice = (slice * 2).min(LONGEST);
    }
}

/// Asks until the answer is yes or the deadline is over, in pauses that grow with the wait. Whether it was yes.
///
/// # Errors
/// That of a question, after which none follows.
pub(crate) fn ask_until(
    deadline: Deadline,
    mut ask: impl FnMut() -> Result<bool, Error>,
) -> Result<bool, Error> {
    let begun = Instant::now();
    loop {
        let answer = ask()?;
        if answer || deadline.is_over() {
            return Ok(answer);
        }
        // So the end is noticed late by at most 1/32 of the wait, or by the shortest pause.
        let pause = begun.elapsed() / 32;
        std::thread::park_timeout(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}

fn is_ready(answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.status() == Some(Status::NOT_READY) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A limit as hooks take it.
fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn failure(status: Status) -> Error {
        Error::Hook {
            plugin: "test".to_owned(),
            operation: "wait".to_owned(),
            status,
            native_code: 0,
            native_name: String::new(),
            message: "a reason".to_owned(),
        }
    }

    /// Waits behind work that never ends, for as long as it is told and at most so many times.
    fn behind_endless_work(limit: Option<Duration>, calls: usize) -> (Vec<Duration>, Status) {
        let (_never, told) = channel::<()>();
        let mut slices = Vec::new();
        let ended = in_slices(limit, |slice| {
            slices.push(slice);
            if slices.len() > calls {
                return Err(failure(Status::PANIC));
            }
            told.recv_timeout(slice)
                .map_err(|_late| failure(Status::TIMEOUT))
        });
        (slices, ended.unwrap_err().status().unwrap())
    }

    #[test]
    fn slices_grow_and_end_with_the_limit() {
        let limit = FIRST * 4;
        let (slices, status) = behind_endless_work(Some(limit), 9);
        assert_eq!(status, Status::TIMEOUT);
        assert_eq!(slices.get(..2), Some(&[FIRST, FIRST * 2][..]));
        assert!(slices.len() == 3 && slices.iter().sum::<Duration>() <= limit);
    }

    #[test]
    fn without_a_limit_what_a_later_slice_answers_is_the_answer() {
        let (slices, status) = behind_endless_work(None, 2);
        assert_eq!(status, Status::PANIC);
        assert_eq!(slices, [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(FIRST * 4, LONGEST);
    }

    #[test]
    fn a_plugin_that_says_at_once_that_a_limit_passed_is_not_asked_for_ever() {
        for (limit, first) in [
            (None, FIRST),
            (Some(FIRST * 9), FIRST),
            (Some(MOMENT), MOMENT),
        ] {
            let mut slices = Vec::new();
            let ended = in_slices(limit, |slice| {
                slices.push(slice);
                Err(failure(Status::TIMEOUT))
            });
            assert_eq!(ended.unwrap_err().status(), Some(Status::TIMEOUT));
            assert!(slices.len() == 1 && slices[0] <= first);
        }
    }

    const MOMENT: Duration = Duration::from_millis(5);
}
