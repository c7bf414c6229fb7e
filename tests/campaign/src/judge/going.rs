//! Whether a client may go with its context: not while Crossdock has anything that knows its stream.

use std::collections::{BTreeMap, BTreeSet};

use super::Judge;
use super::clients::{Clients, stream_of};
use crate::program::{Call, ClientCall};

/// Places that have something of a client's stream, besides those of the stream itself.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// The places of events that were recorded there, with the clients.
    events: BTreeMap<usize, usize>,
    /// Memories that were ever registered: uses of those are kept, maybe beyond their tensors.
    registered: BTreeSet<usize>,
}

impl Judge {
    /// Notes what a call leaves of a client's stream, whatever it answered.
    pub(super) fn trace(&mut self, call: &Call) {
        let wraps = &self.clients.wraps;
        match call {
            Call::Record { e, .. } => {
                let c = stream_of(call).and_then(|s| wraps.get(&s));
                let events = &mut self.clients.traces.events;
                match c {
                    Some(c) => events.insert(*e, *c),
                    None => events.remove(e),
                };
            }
            Call::Hold { e, .. } => drop(self.clients.traces.events.remove(e)),
            Call::Register { of, .. } => {
                let memory = self.tensors.get(of).map(|view| view.memory);
                self.clients.traces.registered.extend(memory);
            }
            _ => {}
        }
    }

    /// Whether a call would let a client go that Crossdock still has something of: it would be the program's mistake.
    pub(crate) fn goes_too_early(&self, call: &Call) -> bool {
        let Call::Client {
            c,
            does: ClientCall::Go,
        } = call
        else {
            return false;
        };
        let Clients {
            wraps,
            users,
            traces,
            are_others,
            ..
        } = &self.clients;
        let places = self.tensors.values().chain(self.exports.values());
        let mut memories = places
            .map(|view| view.memory)
            .chain(traces.registered.iter().copied());
        // With faults nobody knows what work is over.
        self.faulty
            || *are_others
            || self.has_pending_host_events()
            || wraps
                .values()
                .chain(traces.events.values())
                .any(|of| of == c)
            || memories.any(|memory| users.contains(&(memory, *c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Outcome;
    use crate::program::{Element, Language};

    fn did(judge: &mut Judge, call: Call) {
        let outcome = match call {
            Call::Make { .. } => Outcome::Made {
                alias: false,
                read_only: false,
                strides: vec![1],
            },
            _ => Outcome::Done,
        };
        super::super::tests::did(judge, call, outcome).unwrap();
    }

    const C: usize = 0;

    fn go() -> Call {
        Call::Client {
            c: C,
            does: ClientCall::Go,
        }
    }

    /// A judge of a program with a tensor, and a client whose stream is that of place 1.
    fn judge() -> Judge {
        let mut judge = Judge::new(false, false, Language::Rust);
        let come = ClientCall::Come {
            device: 1,
            own: true,
            blocking: false,
            known: true,
        };
        let does = |does| Call::Client { c: C, does };
        did(
            &mut judge,
            Call::Make {
                t: 0,
                device: 1,
                element: Element::Four,
                shape: vec![3],
                seed: 1,
            },
        );
        did(&mut judge, does(come));
        did(&mut judge, does(ClientCall::Wrap { s: 1 }));
        judge
    }

    /// Whether the client may go after these calls, and then without its stream.
    fn may_go(calls: Vec<Call>) -> bool {
        let mut judge = judge();
        calls.into_iter().for_each(|call| did(&mut judge, call));
        assert!(judge.goes_too_early(&go()), "its stream is known");
        did(&mut judge, Call::DropStream { s: 1 });
        !judge.goes_too_early(&go())
    }

    fn fill() -> Call {
        Call::Fill {
            t: 0,
            seed: 3,
            stream: Some(1),
        }
    }

    #[test]
    fn a_client_goes_once_nobody_has_its_stream() {
        assert!(may_go(vec![]));
        assert!(!may_go(vec![fill()]), "memory that has work there");
        assert!(may_go(vec![fill(), Call::DropTensor { t: 0 }]));
        assert!(!may_go(vec![Call::Record { e: 2, s: 1 }]), "an event of it");
        let again = Call::Record { e: 2, s: 0 };
        assert!(may_go(vec![Call::Record { e: 2, s: 1 }, again]));
    }

    #[test]
    fn uses_of_registered_memory_are_kept_longer_than_the_tensor() {
        let (r, of, device) = (0, 0, 1);
        let register = Call::Register { r, of, device };
        let calls = vec![register, fill(), Call::DropTensor { t: 0 }];
        assert!(!may_go(calls));
    }
}
