//! What clients change for the calls of Crossdock: which calls a capture may refuse, and which it must.

use std::collections::{BTreeMap, BTreeSet};

use crossdock_sdk::abi::Status;

use super::going::Traces;
use super::{Judge, Touched};
use crate::caller::{Failed, Failure};
use crate::model::View;
use crate::program::{Call, ClientCall, Op};
use crate::verdict::{Finding, What};

/// A client as the judge knows it.
#[derive(Debug, Clone, Copy)]
struct Client {
    device: usize,
    is_own: bool,
    is_known: bool,
    /// Work on the legacy default stream of its context would join its captures.
    is_blocking: bool,
}

/// All clients of a program, and what is between them and Crossdock.
#[derive(Debug, Default)]
pub(super) struct Clients {
    here: BTreeMap<usize, Client>,
    /// The places of streams that are a client's.
    pub(super) wraps: BTreeMap<usize, usize>,
    /// The places of default streams, with their devices.
    defaults: BTreeMap<usize, usize>,
    /// Those that capture, and the threads that began it.
    open: BTreeMap<usize, usize>,
    /// The places of streams of Crossdock's that clients capture.
    shown: BTreeMap<usize, usize>,
    /// Those who capture one, which may be in no place any more.
    of_shown: BTreeSet<usize>,
    /// Memories that had work on the stream of a client.
    pub(super) users: BTreeSet<(usize, usize)>,
    pub(super) traces: Traces,
    /// The contexts that threads have.
    entered: BTreeMap<usize, Vec<usize>>,
    /// Whether clients of other programs may capture meanwhile.
    pub(super) are_others: bool,
}

impl Clients {
    /// The device of a client.
    pub(super) fn device_of(&self, c: usize) -> Option<usize> {
        self.here.get(&c).map(|client| client.device)
    }

    /// Whether a client of this or another program may capture.
    pub(super) fn may_capture(&self) -> bool {
        self.are_others || !self.open.is_empty()
    }
}

impl Judge {
    /// The captures that are open, each with the thread that can end it.
    pub(crate) fn captures(&self) -> Vec<(usize, usize)> {
        let open = self.clients.open.iter();
        open.map(|(c, thread)| (*c, *thread)).collect()
    }

    /// Notes what an answered call did to streams, and which states it reached.
    pub(super) fn note_answered(&mut self, op: &Op, touched: &Touched) {
        let clients = &mut self.clients;
        match &op.call {
            Call::Client { .. } => return,
            Call::Stream { s, .. } | Call::DropStream { s } => {
                clients.wraps.remove(s);
                clients.defaults.remove(s);
                clients.shown.remove(s);
            }
            Call::Default { s, device } => {
                clients.wraps.remove(s);
                clients.shown.remove(s);
                clients.defaults.insert(*s, *device);
            }
            call => {
                let named = stream_of(call).and_then(|s| clients.wraps.get(&s).copied());
                let views = [&touched.target, &touched.source];
                for view in views.into_iter().flatten() {
                    clients.users.extend(named.map(|c| (view.memory, c)));
                }
            }
        }
        if !self.clients.open.is_empty() {
            self.reached.insert("a call beside a capture");
        }
        let entered = self.clients.entered.get(&op.thread);
        if let Some(Some(c)) = entered.map(|entered| entered.last())
            && self.clients.here.get(c).is_some_and(|client| client.is_own)
        {
            self.reached.insert("a call in a foreign context");
        }
    }

    /// A client did something.
    pub(super) fn client_did(
        &mut self,
        op: &Op,
        (c, does): (usize, &ClientCall),
        touched: &Touched,
    ) -> Result<(), Finding> {
        let clients = &mut self.clients;
        match does {
            ClientCall::Come {
                device,
                own,
                blocking,
                known,
            } => {
                let client = Client {
                    device: *device,
                    is_own: *own,
                    is_known: *known,
                    is_blocking: *blocking,
                };
                clients.here.insert(c, client);
            }
            ClientCall::Wrap { s } => {
                clients.defaults.remove(s);
                clients.shown.remove(s);
                clients.wraps.insert(*s, c);
                self.held.remove(s);
            }
            ClientCall::Capture { .. } => {
                clients.open.insert(c, op.thread);
                let is_known = clients.here.get(&c).is_some_and(|client| client.is_known);
                let name = match is_known {
                    true => "a capture of a known stream",
                    false => "a capture of another stream",
                };
                self.reached.insert(name);
            }
            ClientCall::CaptureShown { s, .. } => {
                clients.open.insert(c, op.thread);
                clients.shown.insert(*s, c);
                clients.of_shown.insert(c);
                self.reached.insert("a capture of a stream that is shown");
            }
            ClientCall::EndCapture => self.capture_is_over(c),
            ClientCall::Enter => clients.entered.entry(op.thread).or_default().push(c),
            ClientCall::Leave => {
                let entered = clients.entered.entry(op.thread).or_default();
                if let Some(at) = entered.iter().rposition(|entered| *entered == c) {
                    entered.remove(at);
                }
            }
            ClientCall::Take { .. } => self.uses(c, touched.source.as_ref()),
            ClientCall::Go => {
                let client = clients.here.remove(&c);
                clients.users.retain(|(_, user)| *user != c);
                if client.is_some_and(|client| client.is_own) {
                    self.reached.insert("a foreign context that ended");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Work on a client's stream uses a memory.
    fn uses(&mut self, c: usize, view: Option<&View>) {
        self.clients.users.extend(view.map(|view| (view.memory, c)));
    }

    /// A client lends memory of its own, with this content or that of a tensor.
    pub(super) fn client_lent(
        &mut self,
        (c, does): (usize, &ClientCall),
        source: Option<View>,
    ) -> Option<(usize, View)> {
        let client = self.clients.here.get(&c).copied()?;
        let (t, view) = match does {
            ClientCall::Lend {
                t,
                element,
                shape,
                seed,
                ..
            } => {
                self.reached.insert("device memory that a client lent");
                (*t, self.fresh((*element, shape, client.device), *seed))
            }
            ClientCall::Take { t, .. } => {
                self.reached.insert("a tensor that a client read");
                self.uses(c, source.as_ref());
                (*t, self.moved(source?, client.device, true, false))
            }
            _ => return None,
        };
        if client.is_own {
            self.reached.insert("memory of a foreign context");
        }
        if self.faulty {
            // Its own work may have failed, and it looks at nothing.
            self.model.spoil(&view);
        }
        self.uses(c, Some(&view));
        Some((t, view))
    }

    /// So much was captured: what the client put there itself.
    pub(super) fn captured(&mut self, c: usize, count: usize) -> Result<(), Finding> {
        self.capture_is_over(c);
        self.reached.insert("a capture that ended well");
        if count == 1 || self.faulty {
            return Ok(());
        }
        let why = format!(
            "the captured graph has {count} nodes, where the client put 1: Crossdock's work got in, or the client's was lost"
        );
        Err(Finding::new(What::Answer, why))
    }

    /// A capture that was not ended as it should be is over too.
    pub(super) fn client_failed(&mut self, c: usize, does: &ClientCall) {
        if matches!(does, ClientCall::EndCapture) {
            self.capture_is_over(c);
        }
    }

    fn capture_is_over(&mut self, c: usize) {
        self.clients.open.remove(&c);
        self.clients.shown.retain(|_, by| *by != c);
        self.clients.of_shown.remove(&c);
    }

    /// Whether a call was refused, as it may be, because a client captures.
    pub(super) fn may_refuse(&mut self, call: &Call, touched: &Touched, error: &Failed) -> bool {
        let is_meant = error.kind == Failure::Hook(Status::CAPTURING)
            && (self.on_captured(call).is_some()
                || self.touches_captured(call, touched)
                // A wait for a device is one for the streams of all.
                || self.clients.are_others && matches!(call, Call::SyncDevice { .. }));
        if is_meant {
            self.reached.insert("a call that a capture refused");
        }
        is_meant
    }

    /// The client whose capture work on the stream would join that a call names.
    fn on_captured(&self, call: &Call) -> Option<usize> {
        let s = stream_of(call)?;
        let clients = &self.clients;
        if let Some(c) = clients.shown.get(&s) {
            return Some(*c);
        }
        let joins = |c: &&usize| {
            let wraps = clients.wraps.get(&s) == Some(*c);
            let client = clients.here.get(*c);
            let waits = client.is_some_and(|client| {
                client.is_blocking && clients.defaults.get(&s) == Some(&client.device)
            });
            wraps || waits
        };
        clients.open.keys().find(joins).copied()
    }

    /// Whether a call waits for work on a stream that is captured by now.
    fn touches_captured(&self, call: &Call, touched: &Touched) -> bool {
        let clients = &self.clients;
        if !clients.of_shown.is_empty() {
            // Work of any memory may be on it from before.
            return true;
        }
        let known = clients.open.keys().filter(|c| {
            let client = clients.here.get(*c);
            client.is_some_and(|client| client.is_known || client.is_blocking)
        });
        let mut known = known.copied();
        known.any(|c| {
            let device = clients.here.get(&c).map(|client| client.device);
            let views = [&touched.target, &touched.source];
            let mut views = views.into_iter().flatten();
            matches!(call, Call::SyncDevice { device: on } if device == Some(*on))
                || views.any(|view| clients.users.contains(&(view.memory, c)))
        })
    }

    /// Refuses the success of work, and of a question, on a stream that is captured.
    pub(super) fn must_refuse(&self, call: &Call, touched: &Touched) -> Result<(), Finding> {
        let is_some = |view: &Option<View>| view.as_ref().is_some_and(|view| view.count() > 0);
        let has_to_be_refused = match call {
            Call::Ask { .. } | Call::Record { .. } | Call::SyncStream { .. } => true,
            Call::Fill { .. } => is_some(&touched.target),
            // What is copied onto itself, by whatever name, stays as it is.
            Call::CopyFrom { .. } => {
                let place = |view: &Option<View>| {
                    let view = view.as_ref()?;
                    Some((view.memory, view.first, view.strides.clone()))
                };
                let [to, from] = [&touched.target, &touched.source];
                place(to) != place(from) && is_some(to)
            }
            _ => false,
        };
        let clients = &self.clients;
        let c = stream_of(call).and_then(|s| {
            let shown = clients.shown.get(&s);
            // Who captures another stream does not capture its own.
            let own = clients.wraps.get(&s);
            shown.or(own.filter(|c| !clients.of_shown.contains(c)))
        });
        if !has_to_be_refused || !c.is_some_and(|c| self.clients.open.contains_key(c)) {
            return Ok(());
        }
        let why = "a call on a stream that is captured was not refused";
        Err(Finding::new(What::Answer, why))
    }
}

/// The stream that a call works on, or asks.
pub(super) fn stream_of(call: &Call) -> Option<usize> {
    match call {
        Call::To { stream, .. }
        | Call::CopyFrom { stream, .. }
        | Call::Fill { stream, .. }
        | Call::Export { stream, .. } => *stream,
        Call::Hold { s, .. }
        | Call::Record { s, .. }
        | Call::Wait { s, .. }
        | Call::SyncStream { s }
        | Call::WaitToRead { s, .. }
        | Call::WaitToWrite { s, .. }
        | Call::UsedOn { s, .. }
        | Call::WrittenOn { s, .. }
        | Call::ReadyOn { s, .. }
        | Call::Draft { s, .. }
        | Call::Take { s, .. }
        | Call::Explain { s, .. }
        | Call::Ask { s } => Some(*s),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{did, made};
    use super::*;
    use crate::caller::Outcome;
    use crate::program::{Element, Language, Offset};

    fn client(judge: &mut Judge, does: ClientCall) {
        did(judge, Call::Client { c: 0, does }, Outcome::Done).unwrap();
    }

    fn refused(status: Status) -> Outcome {
        Outcome::Failed(Failed {
            kind: Failure::Hook(status),
            text: "refused".to_owned(),
            why: "its owner captures the stream".to_owned(),
        })
    }

    /// A judge of a client whose stream is that of place 1, and captures.
    fn capturing() -> Judge {
        let mut judge = Judge::new(false, false, Language::Rust);
        client(
            &mut judge,
            ClientCall::Come {
                device: 1,
                own: true,
                blocking: false,
                known: true,
            },
        );
        client(&mut judge, ClientCall::Wrap { s: 1 });
        client(&mut judge, ClientCall::Capture { mode: 0 });
        judge
    }

    fn record(s: usize) -> Call {
        Call::Record { e: 0, s }
    }

    #[test]
    fn work_on_a_captured_stream_has_to_be_refused_and_no_other() {
        let mut judge = capturing();
        did(&mut judge, record(1), refused(Status::CAPTURING)).unwrap();
        assert_eq!(
            judge
                .reached
                .iter()
                .filter(|name| name.ends_with("a capture refused"))
                .count(),
            1
        );
        did(&mut judge, record(1), refused(Status::VENDOR)).unwrap_err();
        did(&mut judge, record(1), Outcome::Done).unwrap_err();
        did(&mut judge, Call::Ask { s: 1 }, Outcome::Idle(true)).unwrap_err();
        did(&mut judge, record(2), Outcome::Done).unwrap();
        did(&mut judge, record(2), refused(Status::CAPTURING)).unwrap_err();
    }

    #[test]
    fn a_stream_that_was_shown_is_captured_and_the_own_one_of_who_does_that_is_not() {
        let mut judge = capturing();
        let end = Call::Client {
            c: 0,
            does: ClientCall::EndCapture,
        };
        did(&mut judge, end, Outcome::Captured(1)).unwrap();
        client(&mut judge, ClientCall::CaptureShown { s: 2, mode: 0 });
        did(&mut judge, record(2), refused(Status::CAPTURING)).unwrap();
        did(&mut judge, record(2), Outcome::Done).unwrap_err();
        did(&mut judge, record(1), Outcome::Done).unwrap();
        client(&mut judge, ClientCall::EndCapture);
        did(&mut judge, record(2), Outcome::Done).unwrap();
        did(&mut judge, record(2), refused(Status::CAPTURING)).unwrap_err();
    }

    #[test]
    fn nothing_is_refused_once_the_capture_is_over() {
        let mut judge = capturing();
        assert_eq!(judge.captures(), [(0, 0)]);
        let end = || Call::Client {
            c: 0,
            does: ClientCall::EndCapture,
        };
        did(&mut judge, end(), Outcome::Captured(1)).unwrap();
        assert!(judge.captures().is_empty());
        did(&mut judge, record(1), Outcome::Done).unwrap();
        did(&mut judge, record(1), refused(Status::CAPTURING)).unwrap_err();
        client(&mut judge, ClientCall::Capture { mode: 0 });
        did(&mut judge, end(), Outcome::Captured(2)).unwrap_err();
    }

    #[test]
    fn what_a_captured_stream_worked_on_may_be_refused_and_nothing_else() {
        let mut judge = Judge::new(false, false, Language::Rust);
        for t in [0, 1] {
            let tensor = Call::Make {
                t,
                device: 1,
                element: Element::One,
                shape: vec![2],
                seed: 1,
            };
            did(&mut judge, tensor, made(false)).unwrap();
        }
        client(
            &mut judge,
            ClientCall::Come {
                device: 1,
                own: false,
                blocking: false,
                known: true,
            },
        );
        client(&mut judge, ClientCall::Wrap { s: 1 });
        did(&mut judge, Call::UsedOn { t: 0, s: 1 }, Outcome::Done).unwrap();
        client(&mut judge, ClientCall::Capture { mode: 0 });
        let write = |t| Call::Write { t, seed: 3 };
        did(&mut judge, write(0), refused(Status::CAPTURING)).unwrap();
        did(&mut judge, write(1), refused(Status::CAPTURING)).unwrap_err();
        let device = |device| Call::SyncDevice { device };
        did(&mut judge, device(1), refused(Status::CAPTURING)).unwrap();
        did(&mut judge, device(2), refused(Status::CAPTURING)).unwrap_err();
        // The same memory by another name is copied nowhere, so nothing is put on the stream.
        did(&mut judge, Call::Clone { t: 2, of: 0 }, made(false)).unwrap();
        let copy = |of| Call::CopyFrom {
            t: 0,
            of,
            stream: Some(1),
        };
        did(&mut judge, copy(2), Outcome::Done).unwrap();
        did(&mut judge, copy(1), Outcome::Done).unwrap_err();
    }

    #[test]
    fn what_a_client_that_went_worked_on_is_not_refused_for_the_next_one_in_its_place() {
        let come = || ClientCall::Come {
            device: 1,
            own: true,
            blocking: false,
            known: true,
        };
        let capture = || ClientCall::Capture { mode: 0 };
        let lend = Call::Client {
            c: 0,
            does: ClientCall::Lend {
                t: 0,
                element: Element::One,
                shape: vec![2],
                seed: 1,
                offset: Offset::default(),
                pool: false,
            },
        };
        for goes in [false, true] {
            let mut judge = Judge::new(false, false, Language::Rust);
            client(&mut judge, come());
            did(&mut judge, lend.clone(), made(false)).unwrap();
            if goes {
                client(&mut judge, ClientCall::Go);
                client(&mut judge, come());
            }
            client(&mut judge, capture());
            let write = Call::Write { t: 0, seed: 3 };
            let is_wrong = did(&mut judge, write, refused(Status::CAPTURING)).is_err();
            assert_eq!(is_wrong, goes);
            assert_eq!(judge.reached.contains("a foreign context that ended"), goes);
        }
    }
}
