//! Which operations can run, and what starting and finishing one does.
#![expect(unsafe_code, reason = "moves the bytes of operations")]

use std::sync::Arc;
use std::time::Duration;

use crate::Failure;
use crate::clock::{Clock, Epoch};
use crate::fault::Moment;
use crate::links::{Load, of_device};
use crate::memory::Life;
use crate::op::{Body, Completion, Op, Point};
use crate::paced::Move;
use crate::shadow::Mark;
use crate::state::{Busy, Phase, State};
use crate::words::Met;

/// A host function that is due, with what it is known by.
pub(crate) struct HostJob {
    pub(crate) queue: usize,
    pub(crate) op: u64,
    pub(crate) function: Box<dyn FnOnce() + Send>,
    pub(crate) mark: Mark,
    pub(crate) clock: Clock,
}

impl HostJob {
    fn new(
        queue: usize,
        op: u64,
        function: Box<dyn FnOnce(Option<i32>) + Send>,
        start: Start,
    ) -> Self {
        let status = start.failure.map(|failure| failure.status);
        Self {
            queue,
            op,
            function: Box::new(move || function(status)),
            mark: start.mark,
            clock: start.clock,
        }
    }
}

/// What is left to do of an operation that started, without the lock.
pub(crate) enum Rest {
    Nothing,
    Call(HostJob),
    Bytes(Move),
}

/// What the head of a queue waits for.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// Nothing: the queue is empty.
    Empty,
    /// Its host function runs, or it has its link.
    Busy,
    On(Arc<Point>),
    Word(u64),
}

/// What starting an operation has worked out.
struct Start {
    clock: Clock,
    mark: Mark,
    failure: Option<Failure>,
    begin_ns: u64,
    device: u32,
}

impl State {
    /// Why the head of a queue cannot run; `None` if it can.
    pub(crate) fn blocked(&self, queue: usize) -> Option<Blocked> {
        let Some(queue) = self.queues.get(queue) else {
            return Some(Blocked::Empty);
        };
        if queue.busy.is_some() {
            return Some(Blocked::Busy);
        }
        let Some(op) = queue.ops.front() else {
            return Some(Blocked::Empty);
        };
        match &op.body {
            Body::Wait(point) if point.done.get().is_none() => Some(Blocked::On(Arc::clone(point))),
            Body::WaitWord(word, condition, _) if !self.can_pass(*word, *condition) => {
                Some(Blocked::Word(word.address))
            }
            _ => None,
        }
    }

    /// The queues whose heads can run now; none while held.
    pub(crate) fn runnable(&self) -> Vec<usize> {
        if self.held > 0 || self.pending == 0 {
            return Vec::new();
        }
        (0..self.queues.len())
            .filter(|&queue| self.blocked(queue).is_none())
            .collect()
    }

    /// Whether a memory wait stands at the head of a queue: host code can end it without a call.
    pub(crate) fn watches_words(&self) -> bool {
        let head = |q: &crate::state::Queue| {
            q.ops
                .front()
                .is_some_and(|op| matches!(op.body, Body::WaitWord(..)))
        };
        self.pending > 0 && self.queues.iter().any(head)
    }

    /// Runs the head of a queue that can run, but for what takes real time, which is given back.
    pub(crate) fn start(&mut self, queue: usize) -> Rest {
        let op = self.queues.get_mut(queue).and_then(|q| q.ops.pop_front());
        let Some(op) = op else { return Rest::Nothing };
        self.ran += 1;
        let Some(mut start) = self.prepare(queue, &op) else {
            self.pending -= 1;
            return Rest::Nothing;
        };
        let inherited = self.inherit(&op, &mut start);
        let skipped = start.failure.is_some() || (inherited && !self.config.run_after_failure);
        // What does not run uses nothing.
        if !skipped {
            self.check(&op.uses, start.mark, &start.clock);
        }
        let Op {
            id,
            site,
            stream,
            body,
            ..
        } = op;
        let end_ns = self.end_of(&body, &start, skipped);
        self.advance(queue, end_ns);
        let (clock, failed) = (start.clock.clone(), start.failure);
        let busy = move |phase| Busy {
            op: id,
            site,
            stream,
            clock,
            failed,
            phase,
        };
        let body = match body {
            Body::Host(function) if !self.only_judges => {
                // The function may tell the host before it returns, so the host knows from here on.
                if self.config.host_functions_inform {
                    self.host_learns(&start.clock);
                }
                self.hold_up(queue, busy(Phase::Runs));
                return Rest::Call(HostJob::new(queue, id, function, start));
            }
            body => body,
        };
        if self.is_paced() && !skipped && !self.only_judges && body.moves_bytes() {
            self.hold_up(queue, busy(Phase::Runs));
            return Rest::Bytes(Move {
                queue,
                op: id,
                body,
                end_ns,
            });
        }
        self.perform(&body, &start, skipped);
        self.finish(queue, stream, start.clock.clone(), start.failure);
        if let Body::Record(point) = body {
            self.reach(queue, stream, &point, start.clock);
        }
        self.forget_stream(stream);
        Rest::Nothing
    }

    /// Completes a record where its stream has come to it.
    fn reach(&self, queue: usize, stream: u64, point: &Point, clock: Clock) {
        point.complete(Completion {
            failure: self.streams.get(&stream).and_then(|s| s.failure),
            clock,
            time_ns: self.queues.get(queue).map_or(0, |q| q.time_ns),
        });
    }

    /// Lets nothing else run in a queue until an operation is over.
    fn hold_up(&mut self, queue: usize, busy: Busy) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.busy = Some(busy);
        }
    }

    /// Ends an operation whose host function returned.
    pub(crate) fn host_done(&mut self, queue: usize, op: u64, panicked: Option<Failure>) {
        let slot = self.queues.get_mut(queue);
        let Some(busy) = slot.and_then(|q| q.busy.take_if(|busy| busy.op == op)) else {
            return;
        };
        if self.is_paced() {
            self.advance(queue, self.now_ns());
        }
        self.finish(queue, busy.stream, busy.clock, busy.failed.or(panicked));
        self.forget_stream(busy.stream);
    }

    /// Notes the start, and works out what the operation knows and whether a fault strikes it.
    fn prepare(&mut self, queue: usize, op: &Op) -> Option<Start> {
        self.trace
            .note(op.site.name(), [op.site.number(), op.stream]);
        let met = match op.body {
            Body::WaitWord(..) => self.end_wait(op.id),
            _ => None,
        };
        let stream = self.streams.get(&op.stream)?;
        let (actor, device) = (stream.actor, stream.device);
        let mut clock = stream.clock.clone();
        let mut begin_ns = stream.time_ns.max(op.host_ns);
        clock.join(&op.host);
        self.learn(op, met, &mut clock, &mut begin_ns);
        begin_ns = begin_ns.max(self.queues.get(queue).map_or(0, |q| q.time_ns));
        let epoch: Epoch = self.moment(actor);
        clock.set(epoch);
        let mark = Mark {
            epoch,
            site: op.site,
            role: op.body.role(),
            stream: op.stream,
        };
        let struck = self.plan.strikes(Moment::Run, op.site, Some(device));
        let mut failure = struck.map(|(status, _)| Failure {
            status,
            site: op.site,
        });
        if let (Some((_, true)), Some(failure)) = (struck, failure) {
            self.lost.insert(device, failure);
        }
        failure = failure.or_else(|| self.lost.get(&device).copied());
        Some(Start {
            clock,
            mark,
            failure,
            begin_ns,
            device,
        })
    }

    /// What an operation knows by what it waited for, and when that was over.
    fn learn(&self, op: &Op, met: Option<Met>, clock: &mut Clock, begin_ns: &mut u64) {
        let over = match &op.body {
            Body::Wait(point) => point.done.get().map(|done| {
                clock.join(&done.clock);
                done.time_ns
            }),
            Body::WaitWord(_, _, began) => met.map(|met| {
                clock.join(&met.clock);
                // The time of host code that wrote the word passed meanwhile.
                let waited = began.filter(|_| !met.is_by_call);
                let waited = waited.map_or(Duration::ZERO, |began| began.elapsed());
                let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
                match self.is_paced() {
                    true => self.now_ns(),
                    false => op.host_ns.saturating_add(waited),
                }
            }),
            _ => None,
        };
        *begin_ns = (*begin_ns).max(over.unwrap_or(0));
    }

    /// Takes over the failure of what was waited for; whether the stream had failed before.
    fn inherit(&mut self, op: &Op, start: &mut Start) -> bool {
        if let Body::Wait(point) = &op.body {
            let waited = point.done.get().and_then(|done| done.failure);
            start.failure = start.failure.or(waited);
        }
        self.streams
            .get(&op.stream)
            .is_some_and(|s| s.failure.is_some())
    }

    /// When an operation is over. What moves bytes has its link for itself until then.
    fn end_of(&mut self, body: &Body, start: &Start, skipped: bool) -> u64 {
        let load = Load::of(body, start.device, &self.memory, &self.config);
        match load.filter(|_| !skipped) {
            Some(load) => self.links.occupy(load, start.begin_ns).1,
            // Of waits only what they wait for takes time; so does all else where the time is the machine's.
            None if self.is_paced() || body.is_wait() => start.begin_ns,
            None => start
                .begin_ns
                .saturating_add(of_device(&self.config, start.device).latency_ns),
        }
    }

    fn advance(&mut self, queue: usize, time_ns: u64) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.time_ns = time_ns;
        }
    }

    pub(crate) fn finish(
        &mut self,
        queue: usize,
        stream: u64,
        clock: Clock,
        failure: Option<Failure>,
    ) {
        let time_ns = self.queues.get(queue).map_or(0, |q| q.time_ns);
        self.pending -= 1;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.completed += 1;
            state.clock = clock;
            state.time_ns = time_ns;
            state.failure = state.failure.or(failure);
        }
    }

    /// Forgets a destroyed stream once its work is over.
    pub(crate) fn forget_stream(&mut self, stream: u64) {
        let over = |s: &crate::state::StreamState| s.destroyed && s.completed == s.submitted;
        if self.streams.get(&stream).is_some_and(over)
            && let Some(gone) = self.streams.remove(&stream)
        {
            self.gone.entry(gone.device).or_default().join(&gone.clock);
            let time = self.moments.get(gone.actor).copied().unwrap_or(0);
            self.retired.push(Epoch {
                actor: gone.actor,
                time,
            });
        }
    }

    /// Does what an operation does to bytes and words.
    fn perform(&mut self, body: &Body, start: &Start, skipped: bool) {
        match body {
            // The life of memory goes on after a failure: addresses were promised or taken back.
            Body::Allocate(at) => self.begin_life(*at, start),
            Body::Free(at) => self.end_life(*at, start.mark, &start.clock),
            _ if skipped => {}
            Body::WriteWord(word) => {
                self.look_at_words();
                if self.is_there(word.address) {
                    self.store(*word);
                }
                self.words.write(*word, start.clock.clone());
            }
            _ if self.only_judges && !self.is_inside(body) => {}
            // SAFETY: the submitter vouched for host memory.
            _ => unsafe { body.move_bytes(&self.arena) },
        }
    }

    fn begin_life(&mut self, at: u64, start: &Start) {
        let Some(allocation) = self.memory.allocations.get_mut(&at) else {
            return;
        };
        let (from, end) = (allocation.start, allocation.end());
        if matches!(allocation.life, Life::Promised) {
            allocation.life = Life::Live;
        }
        self.enter_use(from, end, true, start.mark, &start.clock);
    }

    /// Frees an allocation: a use of all its bytes, which must be behind all others.
    pub(crate) fn end_life(&mut self, at: u64, mark: Mark, clock: &Clock) {
        let Some(allocation) = self.memory.allocations.get_mut(&at) else {
            return;
        };
        let (from, end, bytes) = (allocation.start, allocation.end(), allocation.bytes);
        let exported = allocation.is_exported.then_some(allocation.id);
        if matches!(allocation.life, Life::Freed(_)) {
            return;
        }
        allocation.life = Life::Freed(mark);
        if let Some(id) = exported {
            // Where that fails, others find memory that is poisoned.
            let _told = self.arena.enter(id, false);
        }
        self.enter_use(from, end, true, mark, clock);
        self.arena.poison(from, bytes, 0xDD);
        self.arena.give_back(from, bytes);
        self.memory.give_back(from);
    }
}
