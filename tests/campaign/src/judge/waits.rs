//! Waits that have to return while host events are pending: those for what nothing that is held can be in the way of.
//!
//! That is known for sure or not at all. After a call that is not named here nothing is, until no host event is pending.

use std::collections::{BTreeMap, BTreeSet};

use super::{Judge, Touched};
use crate::model::View;
use crate::program::{Call, ClientCall};

/// A stream, in whatever places it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// One that Crossdock made, by a number of its own.
    Made(usize),
    /// The default one of a device.
    Default(usize),
    /// That of a client.
    Client(usize),
}

/// The hardware queues of a device's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queues {
    /// Any stream may block any other.
    Unknown,
    /// Streams share queues: a held stream may block work that is enqueued later.
    Shared,
    /// No stream blocks another one that does not wait for it.
    Own,
}

/// What host events hold up.
#[derive(Debug, Default)]
pub(super) struct Waits {
    queues: Vec<Queues>,
    /// The streams of the places, with their devices.
    streams: BTreeMap<usize, (Lane, usize)>,
    made: usize,
    /// Places of host events that are pending.
    pending: BTreeSet<usize>,
    /// What may be behind them: streams, memories, and events with the devices that record them.
    behind: BTreeSet<Lane>,
    memories: BTreeSet<usize>,
    events: BTreeMap<usize, (usize, bool)>,
    /// More may be held than that.
    is_doubtful: bool,
}

impl Waits {
    /// No host event is pending.
    fn are_over(&mut self) {
        self.pending.clear();
        self.behind.clear();
        self.memories.clear();
        for (_, is_behind) in self.events.values_mut() {
            *is_behind = false;
        }
        self.is_doubtful = false;
    }

    fn queues(&self, device: usize) -> Queues {
        self.queues.get(device).copied().unwrap_or(Queues::Unknown)
    }

    fn are_known(&self, device: usize) -> bool {
        self.queues(device) != Queues::Unknown
    }

    /// Whether work that a stream gets now may stand behind a held one.
    fn is_late(&self, device: usize) -> bool {
        self.queues(device) == Queues::Shared && !self.pending.is_empty()
    }

    /// What was not followed here may be behind a host event.
    fn doubt(&mut self) {
        self.is_doubtful |= !self.pending.is_empty();
    }

    /// Another stream comes to a place.
    fn put(&mut self, s: usize, stream: Option<(Lane, usize)>) {
        let before = match stream {
            Some(stream) => self.streams.insert(s, stream),
            None => self.streams.remove(&s),
        };
        if before.is_some_and(|(lane, _)| self.behind.contains(&lane)) {
            self.doubt();
        }
    }

    /// Work on a stream uses memories of its device.
    fn used(&mut self, s: usize, views: &[&View]) {
        let Some((lane, device)) = self.streams.get(&s).copied() else {
            return self.doubt();
        };
        if views.iter().any(|view| view.device != device) {
            self.doubt();
        }
        let mut memories = views.iter().map(|view| view.memory);
        let is_behind = self.is_late(device) || self.behind.contains(&lane);
        if is_behind || memories.any(|memory| self.memories.contains(&memory)) {
            self.behind.insert(lane);
            self.memories.extend(views.iter().map(|view| view.memory));
        }
    }

    /// A stream waits for the host, or for an event that does.
    fn hold(&mut self, s: usize) {
        match self.streams.get(&s) {
            Some((lane, _)) => drop(self.behind.insert(*lane)),
            None => self.doubt(),
        }
    }

    fn recorded(&mut self, e: usize, s: usize) {
        if let Some((lane, device)) = self.streams.get(&s) {
            let is_behind = self.is_late(*device) || self.behind.contains(lane);
            let event = (*device, is_behind);
            self.events.insert(e, event);
        } else {
            self.events.remove(&e);
        }
    }
}

impl Judge {
    pub(crate) fn know_queues(&mut self, queues: Vec<Queues>) {
        self.waits.queues = queues;
    }

    /// All host events were completed.
    pub(crate) fn all_opened(&mut self) {
        self.opened();
        self.waits.are_over();
    }

    /// Follows a call that was answered, whatever it said.
    pub(super) fn note_waits(&mut self, call: &Call, touched: &Touched, is_failure: bool) {
        let (tensors, waits) = (&self.tensors, &mut self.waits);
        let views = [&touched.target, &touched.source];
        let views: Vec<&View> = views.into_iter().flatten().collect();
        match call {
            Call::Stream { s, device } if !is_failure => {
                waits.made += 1;
                waits.put(*s, Some((Lane::Made(waits.made), *device)));
            }
            Call::Default { s, device } if !is_failure => {
                waits.put(*s, Some((Lane::Default(*device), *device)));
            }
            Call::DropStream { s } => waits.put(*s, None),
            // What was there before is given back, behind what uses it.
            Call::Make { t, .. } | Call::Foreign { t, .. } if tensors.contains_key(t) => {
                waits.doubt();
            }
            Call::Hold { e, s, .. } => {
                waits.pending.insert(*e);
                waits.hold(*s);
                let device = waits.streams.get(s).map(|(_, device)| (*device, true));
                waits.events.extend(device.map(|event| (*e, event)));
            }
            Call::Open { e } if !is_failure => {
                waits.pending.remove(e);
                if waits.pending.is_empty() {
                    waits.are_over();
                }
            }
            Call::Record { e, s } if !is_failure => waits.recorded(*e, *s),
            Call::Wait { s, e } => match waits.events.get(e) {
                Some((_, true)) => waits.hold(*s),
                Some((_, false)) => {
                    let device = waits.streams.get(s).map(|(_, device)| *device);
                    if device.is_none_or(|device| waits.is_late(device)) {
                        waits.hold(*s);
                    }
                }
                None => waits.doubt(),
            },
            Call::Fill {
                stream: Some(s), ..
            }
            | Call::CopyFrom {
                stream: Some(s), ..
            } => waits.used(*s, &views),
            Call::Client { c, does } => self.note_client(*c, does, is_failure),
            // They leave nothing behind.
            Call::Fill { stream: None, .. }
            | Call::CopyFrom { stream: None, .. }
            | Call::Make { .. }
            | Call::Foreign { .. }
            | Call::Write { .. }
            | Call::Read { .. }
            | Call::Peek { .. }
            | Call::SyncStream { .. }
            | Call::SyncEvent { .. }
            | Call::SyncTensor { .. }
            | Call::SyncDevice { .. }
            | Call::Ask { .. } => {}
            _ => waits.doubt(),
        }
    }

    fn note_client(&mut self, c: usize, does: &ClientCall, is_failure: bool) {
        let waits = &mut self.waits;
        match does {
            ClientCall::Come {
                device, blocking, ..
            } => {
                // A stream that waits for the default one, which waits for it.
                if let Some(queues) = waits.queues.get_mut(*device).filter(|_| *blocking) {
                    *queues = Queues::Unknown;
                }
            }
            ClientCall::Wrap { s } if !is_failure => {
                let client = self.clients.device_of(c);
                waits.put(*s, client.map(|device| (Lane::Client(c), device)));
            }
            ClientCall::SetLastError | ClientCall::ClearLastError => {}
            _ => waits.doubt(),
        }
    }

    /// Whether a call waits for nothing that may be behind a host event, and so has to answer while those are pending.
    pub(super) fn waits_apart(&self, call: &Call) -> bool {
        let waits = &self.waits;
        if waits.pending.is_empty() || waits.is_doubtful || self.clients.may_capture() {
            return false;
        }
        match call {
            Call::SyncStream { s } => waits.streams.get(s).is_some_and(|(lane, device)| {
                waits.are_known(*device) && !waits.behind.contains(lane)
            }),
            Call::SyncEvent { e } => waits
                .events
                .get(e)
                .is_some_and(|(device, is_behind)| waits.are_known(*device) && !is_behind),
            Call::SyncTensor { t } | Call::Read { t } | Call::Write { t, .. } => {
                self.tensors.get(t).is_some_and(|view| {
                    // The copy of a read is work that comes now.
                    let is_work = !matches!(call, Call::SyncTensor { .. });
                    let is_late = is_work && waits.is_late(view.device);
                    let is_free = waits.are_known(view.device) && !is_late;
                    is_free && !waits.memories.contains(&view.memory)
                })
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Outcome;
    use crate::program::{Element, Language};

    /// The device of these programs, whose streams are apart.
    const DEVICE: usize = 1;
    /// The streams of these programs, and a tensor with work on each of them.
    const HELD: usize = 0;
    const FREE: usize = 1;

    fn did(judge: &mut Judge, call: Call) {
        let outcome = match &call {
            Call::Make { .. } => Outcome::Made {
                alias: false,
                read_only: false,
                strides: vec![1],
            },
            Call::Read { .. } => return,
            _ => Outcome::Done,
        };
        super::super::tests::did(judge, call, outcome).unwrap();
    }

    fn make(t: usize) -> Call {
        Call::Make {
            t,
            device: DEVICE,
            element: Element::One,
            shape: vec![2],
            seed: 1,
        }
    }

    fn fill(t: usize, s: usize) -> Call {
        let (seed, stream) = (2, Some(s));
        Call::Fill { t, seed, stream }
    }

    fn hold() -> Call {
        let (e, s, fails) = (HELD, HELD, false);
        Call::Hold { e, s, fails }
    }

    /// Whether each of these calls may wait for host events.
    fn held_among(judge: &Judge, waits: &[Call]) -> Vec<bool> {
        let has_to = |call| judge.must_return_while_held(call).is_some();
        waits.iter().map(|call| !has_to(call)).collect()
    }

    /// The waits for a stream, its tensor and its event.
    fn waits(at: usize) -> [Call; 4] {
        [
            Call::SyncStream { s: at },
            Call::SyncTensor { t: at },
            Call::Read { t: at },
            Call::SyncEvent { e: at },
        ]
    }

    /// A judge behind a program with a held stream and a free one, each with its tensor and its event, and these calls.
    fn judge(others: &[Call]) -> Judge {
        let mut judge = Judge::new(false, false, Language::Rust);
        judge.know_queues(vec![Queues::Unknown, Queues::Own]);
        let made = Call::Stream {
            s: HELD,
            device: DEVICE,
        };
        let default = Call::Default {
            s: FREE,
            device: DEVICE,
        };
        let first = [made, default, make(HELD), make(FREE), hold()];
        let filled = [fill(HELD, HELD), fill(FREE, FREE)];
        let (e, s) = (FREE, FREE);
        let last = [Call::Record { e, s }];
        let calls = first.into_iter().chain(filled).chain(last);
        calls
            .chain(others.iter().cloned())
            .for_each(|call| did(&mut judge, call));
        judge
    }

    #[test]
    fn waits_for_what_is_free_have_to_return_while_others_are_held() {
        let judge = judge(&[]);
        assert_eq!(held_among(&judge, &waits(FREE)), [false; 4]);
        assert_eq!(held_among(&judge, &waits(HELD)), [true; 4]);
        let device = Call::SyncDevice { device: DEVICE };
        assert_eq!(held_among(&judge, &[device]), [true]);
    }

    #[test]
    fn what_waits_for_held_work_is_held_too() {
        let copied = Call::CopyFrom {
            t: FREE,
            of: HELD,
            stream: Some(FREE),
        };
        let waited = Call::Wait { s: FREE, e: HELD };
        let recorded = Call::Record { e: FREE, s: FREE };
        for joins in [copied, waited] {
            let judge = judge(&[joins, fill(FREE, FREE), recorded.clone()]);
            assert_eq!(held_among(&judge, &waits(FREE)), [true; 4]);
        }
        let also_default = Call::Default {
            s: 2,
            device: DEVICE,
        };
        let joins = Call::Wait { s: 2, e: HELD };
        let judge = judge(&[also_default, joins]);
        let stream = &waits(FREE)[..1];
        assert_eq!(held_among(&judge, stream), [true], "it is one stream");
    }

    #[test]
    fn nothing_is_known_behind_other_calls_until_no_host_event_is_pending() {
        let other = Call::DropTensor { t: HELD };
        let open = Call::Open { e: HELD };
        let behind = judge(std::slice::from_ref(&other));
        assert_eq!(held_among(&behind, &waits(FREE)), [true; 4]);
        let again = judge(&[other, open.clone(), hold()]);
        assert_eq!(held_among(&again, &waits(FREE)), [false; 4]);
        let two = Call::Hold {
            e: 2,
            s: HELD,
            fails: false,
        };
        let one_is_left = judge(&[two, open]);
        assert_eq!(held_among(&one_is_left, &waits(HELD)), [true; 4]);
        assert_eq!(held_among(&one_is_left, &waits(FREE)), [false; 4]);
    }

    #[test]
    fn on_shared_queues_only_earlier_work_is_free() {
        let mut judge = Judge::new(false, false, Language::Rust);
        judge.know_queues(vec![Queues::Unknown, Queues::Shared]);
        let stream = |s| Call::Stream { s, device: DEVICE };
        let (e, s) = (FREE, FREE);
        let record = Call::Record { e, s };
        let first = [stream(HELD), stream(FREE), make(HELD), make(FREE)];
        let work = [fill(FREE, FREE), record.clone(), hold()];
        for call in first.into_iter().chain(work) {
            did(&mut judge, call);
        }
        // The copy of a read stands behind the held stream.
        assert_eq!(
            held_among(&judge, &waits(FREE)),
            [false, false, true, false]
        );
        did(&mut judge, record);
        assert_eq!(held_among(&judge, &waits(FREE)[3..]), [true]);
        did(&mut judge, fill(FREE, FREE));
        assert_eq!(held_among(&judge, &waits(FREE)), [true; 4]);
    }

    #[test]
    fn where_streams_may_be_in_each_others_way_every_wait_may_stand() {
        let all_wait = |judge: &Judge| held_among(judge, &waits(FREE)) == [true; 4];
        let mut shared = judge(&[]);
        shared.know_queues(vec![Queues::Unknown; 2]);
        assert!(all_wait(&shared));
        let mut faulty = judge(&[]);
        faulty.faulty = true;
        assert!(all_wait(&faulty));
        let blocking = Call::Client {
            c: 0,
            does: ClientCall::Come {
                device: DEVICE,
                own: false,
                blocking: true,
                known: true,
            },
        };
        assert!(all_wait(&judge(&[blocking])));
        let capture = |does| Call::Client { c: 0, does };
        let captures = [
            capture(ClientCall::Capture { mode: 0 }),
            Call::Open { e: HELD },
            hold(),
        ];
        assert!(all_wait(&judge(&captures)));
    }
}
