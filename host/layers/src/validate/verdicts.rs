//! What events said of the work before them: a failure stays, and only some statuses tell of one.

use std::collections::HashMap;

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::Error;

use super::rules::Validate;
use crate::calls::call::Call;
use crate::calls::layer_hooks::CallState;

/// The failures that events told of, by handle.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(HashMap<u64, Verdict>);

/// What one record of an event is known to have come to.
#[derive(Debug, Clone, Copy)]
struct Verdict {
    /// Tells one record, and one event with this handle, from the next.
    serial: u64,
    failure: Option<Status>,
}

impl Verdicts {
    /// Before a question: what is known by now. `fresh` is a number for a record that was not asked
    /// about before.
    fn begin(&mut self, event: u64, fresh: u64) -> CallState {
        let verdict = self.0.entry(event).or_insert(Verdict {
            serial: fresh,
            failure: None,
        });
        CallState::Verdict {
            serial: verdict.serial,
            failure: verdict.failure,
        }
    }

    /// The event stands for other work from here on, or for none.
    pub(crate) fn forget(&mut self, event: u64) {
        self.0.remove(&event);
    }

    /// What a record came to, unless the event stands for other work by now.
    fn find(&mut self, event: u64, serial: u64) -> Option<&mut Verdict> {
        let verdict = self.0.get_mut(&event);
        verdict.filter(|verdict| verdict.serial == serial)
    }
}

impl Validate {
    /// Before an event is asked.
    pub(crate) fn begin_question(&self, event: u64) -> CallState {
        let mut registry = self.registry();
        let fresh = registry.next_serial();
        registry.verdicts.begin(event, fresh)
    }

    /// An answer to whether work is over is one, and agrees with what the event said before.
    pub(crate) fn verdict(
        &self,
        call: &Call<'_>,
        state: CallState,
        status: Status,
    ) -> Result<(), Error> {
        let event = match *call {
            Call::EventQuery { event } | Call::EventSynchronize { event, .. } => event.raw(),
            Call::StreamQuery { .. } | Call::StreamSynchronize { .. } => 0,
            _ => return Ok(()),
        };
        if ELSEWHERE.contains(&status) {
            let why = format!("answered {status}, which does not say whether the work is over");
            return Err(self.broken(call.hook(), why));
        }
        let CallState::Verdict { serial, failure } = state else {
            return Ok(());
        };
        let mut registry = self.registry();
        let Some(verdict) = registry.verdicts.find(event, serial) else {
            return Ok(());
        };
        let answers = status.is_failure_of_work() || STILL_OR_NOT.contains(&status);
        if let Some(before) = failure.filter(|before| answers && *before != status) {
            let why = format!(
                "answered {status} for event {event:#x}, and {before} before for the same work"
            );
            return Err(self.broken(call.hook(), why));
        }
        if status.is_failure_of_work() {
            verdict.failure = Some(status);
        }
        Ok(())
    }
}

/// Failures of other hooks: neither one of the work nor one of the question.
const ELSEWHERE: [Status; 5] = [
    Status::NO_DRIVER,
    Status::DRIVER_TOO_OLD,
    Status::DRIVER_STUB,
    Status::NO_DEVICE,
    Status::NOT_OWNER,
];

/// Answers that work which failed cannot have any more.
const STILL_OR_NOT: [Status; 3] = [Status::OK, Status::NOT_READY, Status::TIMEOUT];
