//! Holds each answer of the runtime against the model.

mod clients;
mod failures;
mod going;
mod locks;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crossdock_sdk::abi::Status;

use crate::caller::{Failed, Failure, Outcome};
use crate::foreign::Lent;
use crate::model::{Model, View, content, elements_of, filling, part_of};
use crate::program::{Call, ClientCall, Language, Op, Way};
use crate::verdict::{Finding, What};

use self::clients::Clients;
use self::failures::Failures;
pub(crate) use self::waits::Queues;
use self::waits::Waits;

/// What a call is going to touch, as the model knows it before the call.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    target: Option<View>,
    source: Option<View>,
    /// The stream that it is put on.
    stream: Option<usize>,
}

/// What a call has to find at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// All work before it.
    Before,
    /// All work before it, and its own before the next call.
    Around,
}

/// The model of one program, and what its places hold.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    model: Model,
    tensors: BTreeMap<usize, View>,
    exports: BTreeMap<usize, View>,
    /// Streams that a pending host event holds for sure.
    held: BTreeSet<usize>,
    held_events: BTreeSet<usize>,
    /// Places of host events that may be pending.
    pending: BTreeSet<usize>,
    /// What memories have to look like until a host event is completed: bytes, and which bits of them are
    /// known.
    early: BTreeMap<usize, (Vec<u8>, Vec<u8>)>,
    /// Calls may fail without more reason: faults are injected, or a host event failed.
    faulty: bool,
    /// Memories of two names of which only reads are pending.
    only_read: BTreeSet<usize>,
    /// Hooks are made to fail, with any status.
    pub(crate) hooks_fail: bool,
    /// Whether a call says which route it takes: Python's never do.
    names_routes: bool,
    /// Of each device, whether copies on a stream return before they are done.
    pub(crate) copies_later: Vec<bool>,
    /// The same of copies through host memory.
    pub(crate) stages_later: Vec<bool>,
    /// How many calls were refused with a reason.
    pub(crate) refused: usize,
    clients: Clients,
    failures: Failures,
    waits: Waits,
    /// Memories that a device was told of once, by a lock or by a name of its own: that may end later than the
    /// registration or the tensor.
    told_of: BTreeSet<usize>,
    /// The states that the program came to.
    pub(crate) reached: BTreeSet<&'static str>,
}

impl Judge {
    /// `are_others`: other programs run at the same time.
    pub(crate) fn new(faulty: bool, are_others: bool, language: Language) -> Self {
        let mut judge = Self {
            faulty,
            names_routes: language != Language::Python,
            ..Self::default()
        };
        judge.clients.are_others = are_others;
        if faulty || are_others {
            judge.failures.give_up();
        }
        judge
    }

    /// The places of tensors that are not empty.
    pub(crate) fn tensors(&self) -> Vec<usize> {
        self.tensors.keys().copied().collect()
    }

    /// Host events were completed, so nothing is known to be held.
    pub(crate) fn opened(&mut self) {
        self.held.clear();
        self.held_events.clear();
        self.early.clear();
        self.pending.clear();
    }

    /// A new host event was made in this place: one that was pending there is completed for it.
    fn is_made(&mut self, e: usize) {
        if self.pending.contains(&e) {
            self.opened();
        }
        self.pending.insert(e);
    }

    /// Whether a host event may be pending.
    pub(crate) fn has_pending_host_events(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Why a call has to answer while host events are pending, in the words of a finding; none where it may wait.
    pub(crate) fn must_return_while_held(&self, call: &Call) -> Option<&'static str> {
        if self.faulty {
            return None;
        }
        if self.copies_on_held(call) {
            return Some("a copy on a stream waited for what holds the stream");
        }
        self.waits_apart(call)
            .then_some("a wait for work that nothing holds waited for what holds other work")
    }

    /// Whether a call is a copy of compact elements on a stream that is held, on a direct route or through host memory.
    /// Others wait where the plugin cannot lay them out on a stream, or has none. Python takes the best route, which may
    /// wait.
    fn copies_on_held(&self, call: &Call) -> bool {
        let Call::To {
            of,
            device,
            way: way @ (Way::Direct | Way::Staged),
            stream: Some(s),
            ..
        } = call
        else {
            return false;
        };
        let later = match way {
            Way::Staged => &self.stages_later,
            _direct => &self.copies_later,
        };
        let source = self.tensors.get(of);
        let is_compact = source.is_none_or(View::is_compact);
        let mut devices = source
            .map(|source| source.device)
            .into_iter()
            .chain([*device]);
        let are_later = devices.all(|device| later.get(device).is_none_or(|later| *later));
        self.names_routes && is_compact && are_later && self.held.contains(s)
    }

    /// What became of a completion.
    pub(crate) const fn completed(&mut self, is_done: bool) {
        if !is_done {
            self.faulty = true;
            self.failures.give_up();
        }
    }

    /// Whether a call would say nothing: a look at memory that unheld work may be writing.
    pub(crate) fn says_nothing(&self, call: &Call, peekable: &[bool]) -> bool {
        let Call::Peek { t } = call else {
            return false;
        };
        let device = self.tensors.get(t).map(|view| view.device);
        if device.is_some_and(|device| !peekable[device]) {
            return true;
        }
        let early = self
            .tensors
            .get(t)
            .and_then(|view| self.early.get(&view.memory));
        early.is_none_or(|(_, known)| known.iter().all(|&bits| bits == 0))
    }

    /// What has to rest for a call that touches memory which the runtime knows as two: it orders nothing between them,
    /// and so they may be read at the same time only.
    pub(crate) fn rest(&mut self, call: &Call) -> Rest {
        let content = matches!(
            call,
            Call::To { .. }
                | Call::CopyFrom { .. }
                | Call::Fill { .. }
                | Call::Write { .. }
                | Call::Read { .. }
        );
        if matches!(call, Call::Strange { .. }) {
            return Rest::Around;
        }
        if !content {
            return Rest::Nothing;
        }
        let Touched { target, source, .. } = self.touched(call);
        let (written, read) = match call {
            Call::Read { .. } => (None, target),
            _ => (target, source),
        };
        let mut is_shared = |view: &View| self.model.memory(view).shared;
        if written.is_some_and(|view| is_shared(&view)) {
            return Rest::Around;
        }
        // What wrote it before it had two names may be pending; what did since has been waited for.
        let read = read.filter(is_shared);
        match read.is_some_and(|view| self.only_read.insert(view.memory)) {
            true => Rest::Before,
            false => Rest::Nothing,
        }
    }

    /// The view that a call's source is.
    pub(crate) fn view_of(&self, call: &Call) -> Option<View> {
        let touched = self.touched(call);
        touched.source.or(touched.target)
    }

    /// What a call is going to touch.
    pub(crate) fn touched(&self, call: &Call) -> Touched {
        let tensor = |t: &usize| self.tensors.get(t).cloned();
        match call {
            Call::Slice { of, .. }
            | Call::Permute { of, .. }
            | Call::Reshape { of, .. }
            | Call::Clone { of, .. }
            | Call::Draft { of, .. }
            | Call::Take { of, .. }
            | Call::Strange { of, .. } => Touched {
                source: tensor(of),
                ..Touched::default()
            },
            Call::To { of, stream, .. } | Call::Export { of, stream, .. } => Touched {
                source: tensor(of),
                stream: *stream,
                ..Touched::default()
            },
            Call::CopyFrom { t, of, stream } => Touched {
                target: tensor(t),
                source: tensor(of),
                stream: *stream,
            },
            Call::Fill { t, stream, .. } => Touched {
                target: tensor(t),
                stream: *stream,
                ..Touched::default()
            },
            Call::Write { t, .. }
            | Call::Read { t }
            | Call::Peek { t }
            | Call::SyncTensor { t }
            | Call::DropTensor { t }
            | Call::WaitToRead { t, .. }
            | Call::WaitToWrite { t, .. }
            | Call::UsedOn { t, .. }
            | Call::WrittenOn { t, .. }
            | Call::ReadyOn { t, .. } => Touched {
                target: tensor(t),
                ..Touched::default()
            },
            Call::Client {
                does: ClientCall::Take { of, .. },
                ..
            } => Touched {
                source: tensor(of),
                ..Touched::default()
            },
            Call::Import { x, .. } => Touched {
                source: self.exports.get(x).cloned(),
                ..Touched::default()
            },
            _ => Touched::default(),
        }
    }

    /// Judges one answer, and takes the call over into the model.
    pub(crate) fn check(
        &mut self,
        op: &Op,
        touched: Touched,
        outcome: Outcome,
    ) -> Result<(), Finding> {
        self.failures.check(&op.call, &outcome)?;
        let is_made = !matches!(outcome, Outcome::Skipped);
        if is_made {
            let is_failure = matches!(outcome, Outcome::Failed(_));
            self.note_waits(&op.call, &touched, is_failure);
            self.trace(&op.call);
            self.note_answered(op, &touched);
        }
        match outcome {
            Outcome::Skipped => Ok(()),
            Outcome::Failed(failed) => self.failed(&op.call, &touched, &failed),
            Outcome::Captured(count) => match &op.call {
                Call::Client { c, .. } => self.captured(*c, count),
                _ => Ok(()),
            },
            Outcome::Idle(idle) => self.asked(&op.call, idle),
            Outcome::Bytes(bytes) => self.read(&op.call, &touched, &bytes),
            Outcome::Made {
                alias,
                read_only,
                strides,
            } => self.made(&op.call, touched, (alias, read_only, strides)),
            Outcome::Done => match &op.call {
                Call::Client { c, does } => self.client_did(op, (*c, does), &touched),
                call => self.done(call, touched),
            },
        }
    }

    fn read(&mut self, call: &Call, touched: &Touched, bytes: &[u8]) -> Result<(), Finding> {
        let Some(view) = &touched.target else {
            return Ok(());
        };
        if matches!(call, Call::Peek { .. }) {
            return self.peeked(view, bytes);
        }
        self.model
            .compare(view, bytes)
            .map_err(|why| Finding::new(What::WrongByte, why))?;
        self.model.memory(view).doubtful = false;
        Ok(())
    }

    /// A look at memory that only held work writes: it has to be as it was before that work.
    fn peeked(&self, view: &View, bytes: &[u8]) -> Result<(), Finding> {
        let Some((value, known)) = self.early.get(&view.memory) else {
            return Ok(());
        };
        let first = (view.first / 8) as usize;
        for (at, byte) in bytes.iter().enumerate() {
            if (byte ^ value[first + at]) & known[first + at] != 0 {
                let why = format!("byte {at} was written while the stream was held");
                return Err(Finding::new(What::WrongByte, why));
            }
        }
        Ok(())
    }

    fn made(
        &mut self,
        call: &Call,
        touched: Touched,
        (alias, read_only, strides): (bool, bool, Vec<i64>),
    ) -> Result<(), Finding> {
        let made = match (call, touched.source) {
            (
                Call::Make {
                    t,
                    device,
                    element,
                    shape,
                    seed,
                },
                _,
            ) => Some((*t, self.fresh((*element, shape, *device), *seed))),
            (
                Call::Foreign {
                    t,
                    element,
                    shape,
                    seed,
                    ..
                },
                _,
            ) => Some((*t, self.fresh((*element, shape, 0), *seed))),
            (Call::To { t, device, .. }, Some(source)) => Some((
                *t,
                self.moved(source, *device, touched.stream.is_some(), alias),
            )),
            (Call::Client { c, does }, source) => self.client_lent((*c, does), source),
            (call, Some(source)) => {
                if matches!(call, Call::Strange { .. }) {
                    self.model.memory(&source).shared = true;
                    self.only_read.insert(source.memory);
                }
                part_of(call, source, strides)
            }
            (_, None) => None,
        };
        if let Some((t, view)) = made {
            self.tensors.insert(t, View { read_only, ..view });
        }
        Ok(())
    }

    /// The same values on a device, or the same memory under another name.
    fn moved(&mut self, source: View, device: usize, is_later: bool, alias: bool) -> View {
        if alias {
            self.model.memory(&source).shared |= device != source.device;
            if device != source.device {
                self.told_of.insert(source.memory);
            }
            return View { device, ..source };
        }
        let view = self.model.make(source.element, &source.shape, device);
        let elements = self.model.elements(&source);
        self.model.put(&view, &elements);
        if is_later {
            // When the stream writes it is not known.
            let length = view.bytes();
            self.early
                .insert(view.memory, (vec![0; length], vec![0; length]));
        }
        self.later(&view, is_later);
        view
    }

    fn fresh(
        &mut self,
        (element, shape, device): (crate::program::Element, &[i64], usize),
        seed: u8,
    ) -> View {
        let view = self.model.make(element, shape, device);
        let bytes = content(&view, seed);
        self.model
            .put(&view, &elements_of(&bytes, element, view.count()));
        view
    }

    /// The work on a stream may fail after it was accepted, where anything may. Memory under two names hears of that by
    /// one of them only.
    fn later(&mut self, view: &View, is_later: bool) {
        if !self.faulty || !is_later {
            return;
        }
        self.model.memory(view).doubtful = true;
        if self.model.memory(view).shared {
            self.model.spoil(view);
        }
    }

    fn done(&mut self, call: &Call, touched: Touched) -> Result<(), Finding> {
        self.must_refuse(call, &touched)?;
        match call {
            Call::CopyFrom { .. } => {
                let (Some(to), Some(from)) = (touched.target, touched.source) else {
                    return Ok(());
                };
                if to.shape != from.shape || to.element != from.element {
                    return Err(Finding::new(
                        What::Answer,
                        "tensors of two shapes or dtypes were copied",
                    ));
                }
                let elements = self.model.elements(&from);
                self.written(&to, &elements, touched.stream)
            }
            Call::Fill { seed, .. } => {
                let Some(to) = touched.target else {
                    return Ok(());
                };
                let elements = vec![filling(to.element, *seed); to.count()];
                self.written(&to, &elements, touched.stream)
            }
            Call::Write { seed, .. } => {
                let Some(to) = touched.target else {
                    return Ok(());
                };
                let bytes = content(&to, *seed);
                self.written(&to, &elements_of(&bytes, to.element, to.count()), None)
            }
            call => {
                self.ordered(call, touched);
                Ok(())
            }
        }
    }

    /// A write was accepted.
    fn written(
        &mut self,
        to: &View,
        elements: &[(u128, u128)],
        stream: Option<usize>,
    ) -> Result<(), Finding> {
        if to.read_only && to.count() > 0 {
            return Err(Finding::new(What::Answer, "a read-only tensor was written"));
        }
        if to.overlaps_itself() {
            let why = "a tensor with two elements at one place was written";
            return Err(Finding::new(What::Answer, why));
        }
        let is_held = stream.is_some_and(|stream| self.held.contains(&stream));
        if is_held {
            let whole = self.model.whole(to);
            let before = (whole.0.to_vec(), whole.1.to_vec());
            self.early.entry(to.memory).or_insert(before);
        } else {
            // When it is written is not known, so nothing is.
            let length = self.model.whole(to).0.len();
            self.early
                .insert(to.memory, (vec![0; length], vec![0; length]));
        }
        self.model.put(to, elements);
        self.later(to, stream.is_some());
        Ok(())
    }

    /// Calls that change the places and the host events.
    fn ordered(&mut self, call: &Call, touched: Touched) {
        match call {
            Call::Export { x, .. } => {
                if let Some(view) = touched.source {
                    self.exports.insert(*x, view);
                }
            }
            Call::Release { x } => drop(self.exports.remove(x)),
            Call::DropTensor { t } => drop(self.tensors.remove(t)),
            Call::Stream { s, .. } | Call::Default { s, .. } | Call::DropStream { s } => {
                self.held.remove(s);
            }
            Call::Hold { s, fails, e } => {
                self.is_made(*e);
                self.faulty |= *fails;
                self.held.insert(*s);
                self.held_events.insert(*e);
            }
            Call::Abandon { .. } => {
                self.faulty = true;
                self.opened();
            }
            Call::Open { .. } => self.opened(),
            Call::Register { of, .. } => self.is_locked_now(*of),
            Call::Record { e, s } if self.held.contains(s) => drop(self.held_events.insert(*e)),
            Call::Record { e, .. } => drop(self.held_events.remove(e)),
            Call::Wait { s, e } if self.held_events.contains(e) => drop(self.held.insert(*s)),
            Call::SyncTensor { .. } => {
                if let Some(view) = &touched.target {
                    self.model.memory(view).doubtful = false;
                }
            }
            _ => {}
        }
    }

    /// A stream that is held has something to do.
    fn asked(&self, call: &Call, idle: bool) -> Result<(), Finding> {
        // A hook that is made to fail may say that work is pending, before it could refuse the question.
        if idle || !self.hooks_fail {
            self.must_refuse(call, &Touched::default())?;
        }
        match call {
            Call::Ask { s } if idle && self.held.contains(s) => Err(Finding::new(
                What::Answer,
                "a stream that is held says that it is idle",
            )),
            _ => Ok(()),
        }
    }

    /// A call failed. Without faults that is a refusal, which changes nothing, or a finding.
    fn failed(&mut self, call: &Call, touched: &Touched, error: &Failed) -> Result<(), Finding> {
        if let Call::Import { x, .. } = call {
            self.exports.remove(x);
        }
        if let Call::Hold { e, .. } = call {
            self.is_made(*e);
        }
        if let Call::Client { c, does } = call {
            self.client_failed(*c, does);
        }
        self.must_not_be_locked(call, error)?;
        if self.faulty {
            if let Some(view) = &touched.target
                && matches!(
                    call,
                    Call::CopyFrom { .. } | Call::Fill { .. } | Call::Write { .. }
                )
            {
                self.model.spoil(view);
                self.model.memory(view).doubtful = true;
                // The streams are held on: what comes to one behind the failure says nothing of memory from before it.
                for (_, known) in self.early.values_mut() {
                    known.fill(0);
                }
            }
            return Ok(());
        }
        if self.may_refuse(call, touched, error) && !error.why.is_empty() {
            self.refused += 1;
            return Ok(());
        }
        let overlaps = touched.target.as_ref().is_some_and(View::overlaps_itself);
        let is_refusal = match error.kind {
            Failure::Refused => true,
            Failure::Hook(status) => {
                let is_known = self.is_locked(call, status);
                status == Status::UNSUPPORTED || is_known || status == Status::INVALID && overlaps
            }
            Failure::Other => false,
        };
        if is_refusal && !error.why.is_empty() {
            self.refused += 1;
            return Ok(());
        }
        Err(Finding::new(
            What::Answer,
            format!("{}: {}", error.text, error.why),
        ))
    }

    /// Whether a registration was refused as it may be: the memory is locked already, or was made by the device; or
    /// another vendor pinned it, whose pages a driver need not lock.
    fn is_locked(&self, call: &Call, status: Status) -> bool {
        let Call::Register { of, .. } = call else {
            return false;
        };
        let is_of_host = self.tensors.get(of).is_none_or(|view| view.device == 0);
        status == Status::CONFLICT || status == Status::PERMISSION && !is_of_host
    }

    /// What was lent comes back once nobody has it; not at once, where work was under way. Whether it is back: with
    /// faults it may be leaked, or come later, for other programs leak too.
    pub(crate) fn lent(&self, lent: &Lent, limit: Duration) -> Result<bool, Finding> {
        let end = Instant::now() + limit;
        loop {
            match lent.check() {
                Err(why) if why.starts_with("left") => {
                    if self.faulty && crossdock::counted_leaks() > 0 {
                        return Ok(false);
                    }
                    if Instant::now() > end {
                        return Err(Finding::new(What::Left, why));
                    }
                }
                Err(why) => return Err(Finding::new(What::WrongByte, why)),
                Ok(()) => return Ok(true),
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Element, Offset};

    /// What the judge says of the answer to a call.
    pub(super) fn did(judge: &mut Judge, call: Call, outcome: Outcome) -> Result<(), Finding> {
        let op = Op {
            thread: 0,
            runtime: 0,
            call,
        };
        let touched = judge.touched(&op.call);
        judge.check(&op, touched, outcome)
    }

    /// The answer to a call that gave a tensor of one dimension.
    pub(super) fn made(alias: bool) -> Outcome {
        Outcome::Made {
            alias,
            read_only: false,
            strides: vec![1],
        }
    }

    /// Two elements of the second device.
    fn make(t: usize) -> Call {
        Call::Make {
            t,
            device: 1,
            element: Element::Eight,
            shape: vec![2],
            seed: 1,
        }
    }

    /// The memory of the first tensor by another name.
    fn strange() -> Call {
        Call::Strange {
            t: 1,
            of: 0,
            shape: vec![2],
            strides: vec![1],
            first: 0,
            bytes: 0,
        }
    }

    /// Work on the first stream that writes a tensor.
    const fn fill(t: usize) -> Call {
        Call::Fill {
            t,
            seed: 2,
            stream: Some(0),
        }
    }

    /// What the judge says of a look at memory after these calls, when the held work has written it.
    fn look_after(holds: usize) -> Result<(), Finding> {
        let mut judge = Judge::new(false, false, Language::Rust);
        let hold = || Call::Hold {
            e: 0,
            s: 0,
            fails: false,
        };
        let tensor = Call::Foreign {
            t: 0,
            element: Element::Eight,
            shape: vec![2],
            seed: 1,
            offset: Offset::default(),
        };
        let mut calls = vec![hold(), tensor, fill(0)];
        calls.extend((1..holds).map(|_| hold()));
        calls.push(Call::Peek { t: 0 });
        for call in calls {
            let outcome = match call {
                Call::Foreign { .. } => made(false),
                Call::Peek { .. } => Outcome::Bytes(vec![0xa5; 16]),
                _ => Outcome::Done,
            };
            did(&mut judge, call, outcome)?;
        }
        Ok(())
    }

    #[test]
    fn held_work_may_run_once_another_host_event_takes_the_place_of_its_own() {
        assert_eq!(look_after(1).unwrap_err().what, What::WrongByte);
        look_after(2).unwrap();
    }

    /// What the judge says of bytes that are read after a copy on a stream that may have failed, by the name that was
    /// written or by another one of its memory, as the runtime knows it.
    fn read_after_doubtful_work(is_strange: bool) -> Result<(), Finding> {
        let mut judge = Judge::new(true, false, Language::Rust);
        let mut calls = vec![(make(0), made(false))];
        calls.extend(is_strange.then(|| (strange(), made(false))));
        calls.push((fill(usize::from(is_strange)), Outcome::Done));
        calls.push((Call::Read { t: 0 }, Outcome::Bytes(vec![0xcd; 16])));
        calls
            .into_iter()
            .try_for_each(|(call, outcome)| did(&mut judge, call, outcome))
    }

    #[test]
    fn the_failure_of_work_is_told_by_the_name_that_it_wrote() {
        read_after_doubtful_work(true).unwrap();
        let found = read_after_doubtful_work(false).unwrap_err();
        assert_eq!(found.what, What::WrongByte);
    }

    #[test]
    fn a_failed_copy_leaves_held_memory_unknown_for_later_work_on_it() {
        let mut judge = Judge::new(true, false, Language::Rust);
        let (e, s, stream) = (0, 0, Some(0));
        let fails = false;
        let refused = || Outcome::Failed(Failed::other("no".to_owned()));
        let copy = |t| Call::CopyFrom { t, of: 0, stream };
        let calls = [
            (make(0), made(false)),
            (make(1), made(false)),
            (Call::Hold { e, s, fails }, Outcome::Done),
            (fill(0), Outcome::Done),
            (copy(1), refused()),
            (copy(0), Outcome::Done),
        ];
        for (call, outcome) in calls {
            did(&mut judge, call, outcome).unwrap();
        }
        let peek = Call::Peek { t: 0 };
        assert!(judge.says_nothing(&peek, &[true, true]));
    }

    /// What the judge makes rest for a read of memory that was made and then named again by `naming`, for a second one,
    /// and for a write.
    fn rests_after(naming: Call) -> [Rest; 3] {
        let mut judge = Judge::new(false, false, Language::Rust);
        for (call, alias) in [(make(0), false), (naming, true)] {
            did(&mut judge, call, made(alias)).unwrap();
        }
        let read = Call::Read { t: 0 };
        [read.clone(), read, fill(0)].map(|call| judge.rest(&call))
    }

    #[test]
    fn memory_of_two_names_is_read_without_a_rest_and_written_in_one() {
        let alias = Call::To {
            t: 1,
            of: 0,
            device: 0,
            way: Way::Alias,
            stream: None,
        };
        let (nothing, around) = (Rest::Nothing, Rest::Around);
        assert_eq!(rests_after(strange()), [nothing, nothing, around]);
        // Work from before it had two names may be pending.
        assert_eq!(rests_after(alias), [Rest::Before, nothing, around]);
    }

    #[test]
    fn a_copy_on_a_held_stream_has_to_answer_and_no_other_call() {
        let to = |way, stream| Call::To {
            t: 1,
            of: 0,
            device: 1,
            way,
            stream,
        };
        let mut judge = Judge::new(false, false, Language::Rust);
        assert_eq!(
            judge.must_return_while_held(&to(Way::Direct, Some(0))),
            None
        );
        judge.held.insert(0);
        assert!(
            judge
                .must_return_while_held(&to(Way::Direct, Some(0)))
                .is_some()
        );
        let staged = to(Way::Staged, Some(0));
        assert!(judge.must_return_while_held(&staged).is_some());
        judge.stages_later = vec![true, false];
        assert_eq!(judge.must_return_while_held(&staged), None);
        let may_wait = [
            to(Way::Direct, Some(1)),
            to(Way::Direct, None),
            Call::SyncStream { s: 0 },
        ];
        assert!(
            may_wait
                .iter()
                .all(|call| judge.must_return_while_held(call).is_none())
        );
        judge.copies_later = vec![true, false];
        assert_eq!(
            judge.must_return_while_held(&to(Way::Direct, Some(0))),
            None
        );
        judge.copies_later = vec![false, true];
        assert!(
            judge
                .must_return_while_held(&to(Way::Direct, Some(0)))
                .is_some(),
            "the other device's are"
        );
        judge.names_routes = false;
        assert_eq!(
            judge.must_return_while_held(&to(Way::Direct, Some(0))),
            None
        );
        (judge.names_routes, judge.faulty) = (true, true);
        assert_eq!(
            judge.must_return_while_held(&to(Way::Direct, Some(0))),
            None
        );
    }
}
