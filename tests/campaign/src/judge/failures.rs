//! Who has to be told of a failure: known from the start of a program on, until the first call that could tell of one
//! in another way, or that fails for itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::caller::Outcome;
use crate::program::Call;
use crate::verdict::{Finding, What};

/// Host events by number, in the order in which they were made.
type HostEvents = BTreeSet<usize>;

/// A stream, and what it waits for.
#[derive(Debug, Default)]
struct Waiting {
    /// What it has not told of.
    untold: HostEvents,
    told: HostEvents,
}

/// Which host events each stream, event and tensor waits for. Whether they are pending makes no difference: who asks for
/// the outcome waits for it.
#[derive(Debug, Default)]
pub(super) struct Failures {
    is_over: bool,
    /// How many host events were made.
    made: usize,
    /// Those that fail.
    failing: HostEvents,
    /// The host event that was last made in a place.
    hosts: BTreeMap<usize, usize>,
    events: BTreeMap<usize, HostEvents>,
    streams: BTreeMap<usize, Waiting>,
    tensors: BTreeMap<usize, HostEvents>,
}

impl Failures {
    /// From here on anything may fail, or be told to others.
    pub(super) const fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Holds an answer against what is known of failures.
    pub(super) fn check(&mut self, call: &Call, outcome: &Outcome) -> Result<(), Finding> {
        if self.is_over || matches!(outcome, Outcome::Skipped) {
            return Ok(());
        }
        let is_failure = matches!(outcome, Outcome::Failed(_));
        match call {
            Call::SyncStream { s } => self.stream_answered(*s, is_failure),
            Call::SyncEvent { e } => self.answered(self.events.get(e), is_failure),
            Call::SyncTensor { t } | Call::Read { t } => {
                self.answered(self.tensors.get(t), is_failure)
            }
            _ if is_failure => {
                self.give_up();
                Ok(())
            }
            call => {
                if self.take_over(call).is_none() {
                    self.give_up();
                }
                Ok(())
            }
        }
    }

    /// A call succeeded; `None` where it is not known what that means.
    fn take_over(&mut self, call: &Call) -> Option<()> {
        match call {
            Call::Stream { s, .. } => drop(self.streams.insert(*s, Waiting::default())),
            Call::DropStream { s } => drop(self.streams.remove(s)?),
            Call::Hold { e, s, fails } => {
                let made = self.made;
                self.made += 1;
                self.hosts.insert(*e, made);
                if *fails {
                    self.failing.insert(made);
                }
                self.events.insert(*e, HostEvents::from([made]));
                self.streams.get_mut(s)?.untold.insert(made);
            }
            Call::Open { .. } => {}
            Call::Abandon { e } => {
                self.failing.insert(*self.hosts.get(e)?);
                self.events.remove(e);
            }
            Call::Record { e, s } => {
                let untold = self.streams.get(s)?.untold.clone();
                self.events.insert(*e, untold);
            }
            Call::Wait { s, e } => {
                let (stream, event) = (self.streams.get_mut(s)?, self.events.get(e)?);
                // Whether it would tell of them again is not said.
                if !stream.told.is_disjoint(event) {
                    return None;
                }
                stream.untold.extend(event);
            }
            Call::Make { t, .. } => drop(self.tensors.insert(*t, HostEvents::new())),
            Call::Fill {
                t, stream: Some(s), ..
            } => {
                let untold = self.streams.get(s)?.untold.clone();
                let before = self.tensors.insert(*t, untold)?;
                // Work that comes behind failed work may have written all of it again.
                return before.is_empty().then_some(());
            }
            _ => return None,
        }
        Some(())
    }

    /// A stream tells once.
    fn stream_answered(&mut self, s: usize, is_failure: bool) -> Result<(), Finding> {
        let known = self.streams.get(&s).map(|stream| &stream.untold);
        self.answered(known, is_failure)?;
        if known.is_some_and(|untold| self.failures(untold) > 1) {
            // Whether it tells of each is not said.
            self.give_up();
        }
        if let Some(stream) = self.streams.get_mut(&s) {
            stream.told.append(&mut stream.untold);
        }
        Ok(())
    }

    /// Holds an answer to who waits for these against what is known.
    fn answered(&self, known: Option<&HostEvents>, is_failure: bool) -> Result<(), Finding> {
        let has_failed = known.is_some_and(|known| self.failures(known) > 0);
        let why = match (has_failed, is_failure) {
            (true, false) => "nobody told of a failure: a host event failed that this waited for",
            (false, true) => {
                "a failure was told where none is left to tell: nothing that this waited for failed, or it was told"
            }
            _ => return Ok(()),
        };
        Err(Finding::new(What::Answer, why))
    }

    fn failures(&self, of: &HostEvents) -> usize {
        of.intersection(&self.failing).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Failed;
    use crate::program::Element;

    fn failed() -> Outcome {
        Outcome::Failed(Failed::other("a host event failed".to_owned()))
    }

    /// A failing host event, for which the second stream waits too.
    fn known() -> Failures {
        let mut failures = Failures::default();
        let calls = [
            Call::Stream { s: 0, device: 0 },
            Call::Stream { s: 1, device: 1 },
            Call::Hold {
                e: 0,
                s: 0,
                fails: true,
            },
            Call::Open { e: 0 },
            Call::Wait { s: 1, e: 0 },
        ];
        for call in calls {
            failures.check(&call, &Outcome::Done).unwrap();
        }
        failures
    }

    const SYNC: Call = Call::SyncStream { s: 1 };

    #[test]
    fn a_stream_has_to_tell_of_a_failure_and_only_once() {
        let why = known().check(&SYNC, &Outcome::Done).unwrap_err().text;
        assert!(why.starts_with("nobody told of a failure"), "{why}");
        let mut failures = known();
        failures.check(&SYNC, &failed()).unwrap();
        failures.check(&SYNC, &failed()).unwrap_err();
        failures.check(&SYNC, &Outcome::Done).unwrap();
        // The other one has its own to tell.
        let other = Call::SyncStream { s: 0 };
        failures.check(&other, &Outcome::Done).unwrap_err();
        failures.check(&other, &failed()).unwrap();
    }

    #[test]
    fn an_event_and_a_tensor_tell_each_time() {
        let mut failures = known();
        let tensor = Call::Make {
            t: 0,
            device: 1,
            element: Element::One,
            shape: vec![2],
            seed: 1,
        };
        let fill = Call::Fill {
            t: 0,
            seed: 2,
            stream: Some(1),
        };
        for call in [tensor, fill, Call::Record { e: 1, s: 1 }] {
            failures.check(&call, &Outcome::Done).unwrap();
        }
        failures.check(&SYNC, &failed()).unwrap();
        for call in [
            Call::SyncEvent { e: 1 },
            Call::SyncTensor { t: 0 },
            Call::Read { t: 0 },
        ] {
            for _ in 0..2 {
                failures.check(&call, &failed()).unwrap();
                failures.check(&call, &Outcome::Done).unwrap_err();
            }
        }
    }

    #[test]
    fn a_host_event_that_is_dropped_fails_what_waited_before() {
        let mut failures = Failures::default();
        let hold = Call::Hold {
            e: 0,
            s: 1,
            fails: false,
        };
        let stream = Call::Stream { s: 1, device: 0 };
        for call in [stream, hold, Call::Abandon { e: 0 }] {
            failures.check(&call, &Outcome::Done).unwrap();
        }
        failures.check(&SYNC, &Outcome::Done).unwrap_err();
    }

    #[test]
    fn nothing_is_demanded_once_another_call_may_have_told_or_one_failed() {
        let device = Call::SyncDevice { device: 1 };
        let wait = Call::Wait { s: 1, e: 0 };
        for (call, outcome) in [(device, Outcome::Done), (wait, failed())] {
            let mut failures = known();
            failures.check(&call, &outcome).unwrap();
            failures.check(&SYNC, &Outcome::Done).unwrap();
        }
    }
}
