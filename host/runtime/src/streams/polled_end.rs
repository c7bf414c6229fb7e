//! The end of work that a plugin calls no host function for: it is queried now and then, and nothing blocks.

use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::streams::completion::{Waiting, waiting_stream};
use crate::streams::internal_stream::InternalStream;

/// What is queried for the end of the work before an event.
#[derive(Debug)]
pub(super) struct PolledEnd {
    /// A stream that waits for the event. Without one the event itself is queried: a stream that began to wait now
    /// could stand behind the stream that waits for the answer.
    stream: Option<Arc<InternalStream>>,
    /// The failure of the event, which that stream has to pass.
    failure: Option<Error>,
    /// The last query of the event failed, and that was not the failure of its work.
    has_failed: bool,
}

impl PolledEnd {
    pub(super) const fn new(behind: Option<Arc<InternalStream>>) -> Self {
        Self {
            stream: behind,
            failure: None,
            has_failed: false,
        }
    }

    /// How the work ended: `None` while it may run, and an error where that cannot be determined or where a stream
    /// inherits the failure.
    pub(super) fn ask(&mut self, waiting: &Waiting) -> Option<Result<(), Error>> {
        let Some(stream) = &self.stream else {
            return self.ask_event(waiting);
        };
        match (is_over(stream), self.failure.take()) {
            (Ok(false), failure) => {
                self.failure = failure;
                None
            }
            (Ok(true), failure) => {
                if failure.is_some() {
                    waiting.event.set_failed();
                }
                Some(Ok(()))
            }
            (Err(_), Some(failure)) => Some(Err(failure)),
            (Err(_), None) => {
                self.stream = None;
                self.ask_event(waiting)
            }
        }
    }

    fn ask_event(&mut self, waiting: &Waiting) -> Option<Result<(), Error>> {
        let event = &waiting.event;
        let failure = match event.is_done() {
            Ok(is_done) => {
                self.has_failed = false;
                return is_done.then_some(Ok(()));
            }
            Err(failure) => failure,
        };
        if !failure.is_failure_of_work() && !std::mem::replace(&mut self.has_failed, true) {
            return None;
        }
        if waiting.is_waited_for() {
            return Some(Err(failure));
        }
        if event.is_known_failed() {
            return Some(Ok(()));
        }
        let Ok(stream) = waiting_stream(event) else {
            return Some(Err(failure));
        };
        (self.stream, self.failure) = (Some(Arc::new(stream)), Some(failure));
        None
    }
}

/// Whether the work of a stream is over, failed or not.
///
/// # Errors
/// What the plugin answered where that does not say it.
fn is_over(stream: &InternalStream) -> Result<bool, Error> {
    let is_idle = stream.device().hooks().is_idle(stream.handle());
    is_idle.or_else(|_| {
        // A stream reports a failure of its work until a wait was told of it.
        let at_once = Deadline::after(Some(Duration::ZERO));
        match stream.wait_until_over(at_once) {
            Err(error) if error.status() == Some(Status::TIMEOUT) => Ok(false),
            over => over.map(|()| true),
        }
    })
}
