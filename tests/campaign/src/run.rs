//! The interpreter: has the calls of a program made one at a time, and holds each answer against the model.
//!
//! A call that has not answered after a moment, or (where threads take [turns](crate::turns)) once all
//! threads sleep, is taken to be held up by a pending host event: then all host events are completed, and the call
//! has to end. So calls are made in the order of the program, on however many threads; the seed orders
//! those of programs that run in turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::caller::{Caller, HostEvents, Outcome};
use crate::driver::{self, Asking, Changed, Current};
use crate::generate::Random;
use crate::judge::{Judge, Rest, Touched};
use crate::model::View;
use crate::program::{Call, Case, ClientCall, Op};
use crate::turns::{LOOK, Turns};
use crate::verdict::{Finding, Passed, What};
use crate::world::World;

/// How long a call behind a pending host event may show that it does not wait, where threads run
/// freely.
const MOMENT: Duration = Duration::from_millis(25);

/// How long one may take that has to answer all the same: a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often an event is completed whose completion fails, and a wait is made that fails.
const TRIES: usize = 40;

/// What a thread is asked to do.
type Request = (Box<dyn Caller>, Op, Option<View>);

/// A program in the making: its places, its model and its threads.
pub(crate) struct Run {
    world: Arc<World>,
    judge: Judge,
    host_events: HostEvents,
    caller: Option<Box<dyn Caller>>,
    threads: BTreeMap<usize, Thread>,
    limit: Duration,
    /// The devices whose memory can be looked at while a stream is held.
    peekable: Vec<bool>,
    /// Where threads take turns.
    turns: Option<Turns>,
    /// The host events of programs that run in turns with this one.
    beside: Vec<HostEvents>,
    /// Whether calls that may leave work behind were made since all streams and devices were waited for.
    has_work: bool,
    /// Whether calls are made to fail: then each may leave work behind.
    faulty: bool,
    /// Whether those of a driver are.
    has_driver_faults: bool,
}

/// With the caller and the outcome, what changed in the thread.
type Answer = (Box<dyn Caller>, Outcome, Changed);

struct Thread {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
    handle: JoinHandle<()>,
}

impl Thread {
    /// `may_err`: calls of clients may fail within those of Crossdock.
    fn start(may_err: bool) -> Self {
        let (requests, to_do) = channel::<Request>();
        let (done, answers) = channel();
        let handle = std::thread::spawn(move || {
            let driver = Asking::open();
            let current = || driver.as_ref().map(Asking::now);
            while let Ok((mut caller, op, of)) = to_do.recv() {
                let before = current();
                let outcome = caller.perform(&op, of.as_ref());
                let may_err = may_err || matches!(op.call, Call::Client { .. });
                let changed = Current::changed(before, current(), may_err);
                if done.send((caller, outcome, changed)).is_err() {
                    return;
                }
            }
        });
        Self {
            requests,
            answers,
            handle,
        }
    }
}

impl Run {
    /// An empty program in the world of a case. Where calls are made to fail, errors are answers.
    pub(crate) fn new(case: &Case, world: &Arc<World>, limit: Duration) -> Self {
        let caller = world.caller();
        let mut judge = Judge::new(case.has_faults(), case.programs.len() > 1, case.language);
        judge.hooks_fail = case.fault.is_some();
        judge.know_queues(world.queues.clone());
        judge.copies_later.clone_from(&world.copies_later);
        judge.stages_later.clone_from(&world.stages_later);
        Self {
            world: Arc::clone(world),
            judge,
            host_events: caller.host_events(),
            caller: Some(caller),
            threads: BTreeMap::new(),
            limit,
            peekable: world.peekable.clone(),
            turns: Turns::of(case, world),
            beside: Vec::new(),
            has_work: false,
            faulty: case.has_faults(),
            has_driver_faults: case.engine.fault.is_some(),
        }
    }

    /// Runs several programs in turns, one call at a time, in an order of this seed.
    ///
    /// # Errors
    /// As [`Run::all`].
    pub(crate) fn in_turns(mut runs: Vec<(Self, &[Op])>, seed: u64) -> Result<Passed, Finding> {
        let events = runs.iter().map(|(run, _)| Arc::clone(&run.host_events));
        let events: Vec<HostEvents> = events.collect();
        for (run, _) in &mut runs {
            run.beside.clone_from(&events);
        }
        let mut random = Random::new(seed);
        // The program of each call that is left.
        let mut left: Vec<usize> = Vec::new();
        for (program, (_, ops)) in runs.iter().enumerate() {
            left.resize(left.len() + ops.len(), program);
        }
        let mut next = vec![0; runs.len()];
        while !left.is_empty() {
            let program = left.swap_remove(random.below(left.len() as u64) as usize);
            let (run, ops) = &mut runs[program];
            run.step_at(ops, next[program])?;
            next[program] += 1;
        }
        // Nobody's streams are held from here on.
        runs.iter_mut().try_for_each(|(run, _)| run.settle())?;
        let ended = runs.into_iter().map(|(run, ops)| run.end(ops.len()));
        ended.sum()
    }

    /// Runs all operations, reads every tensor and drops everything. `begun` hears of each operation
    /// and the tensors before it, and of the end as of one more.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn all(
        mut self,
        ops: &[Op],
        begun: &dyn Fn(usize, &dyn Caller),
    ) -> Result<Passed, Finding> {
        for index in 0..ops.len() {
            self.tell(index, begun);
            self.step_at(ops, index)?;
        }
        self.tell(ops.len(), begun);
        self.end(ops.len())
    }

    fn tell(&self, index: usize, begun: &dyn Fn(usize, &dyn Caller)) {
        if let Some(caller) = &self.caller {
            begun(index, caller.as_ref());
        }
    }

    /// The operation of this number.
    fn step_at(&mut self, ops: &[Op], index: usize) -> Result<(), Finding> {
        let op = &ops[index];
        self.step(op).map_err(|finding| finding.at(index, op))
    }

    /// Reads every tensor and drops everything, after so many operations.
    fn end(mut self, count: usize) -> Result<Passed, Finding> {
        self.settle()?;
        for t in self.judge.tensors() {
            self.step(&main(Call::Read { t }))
                .map_err(|finding| finding.at(count, &main(Call::Read { t })))?;
        }
        let has_clients = !self.finish()?;
        let reached = self.judge.reached.iter();
        Ok(Passed {
            refused: self.judge.refused,
            reached: reached.map(|name| (*name).to_owned()).collect(),
            has_clients,
        })
    }

    /// One operation, and before and after it a rest of everything where memory of two names asks for that.
    fn step(&mut self, op: &Op) -> Result<(), Finding> {
        let rest = self.judge.rest(&op.call);
        if rest != Rest::Nothing {
            self.settle()?;
        }
        self.turn(op)?;
        if rest == Rest::Around {
            self.settle()?;
        }
        Ok(())
    }

    /// Completes all host events, and waits for all streams and devices where they may have work.
    fn settle(&mut self) -> Result<(), Finding> {
        self.complete_host_events();
        self.end_captures()?;
        if !self.has_work {
            return Ok(());
        }
        let streams = self.caller.as_ref().map(|caller| caller.streams());
        let streams = streams.unwrap_or_default();
        for s in streams {
            self.wait(&main(Call::SyncStream { s }))?;
        }
        for runtime in 0..self.world.devices.len() {
            for device in 0..self.world.devices[runtime].len() {
                let call = Call::SyncDevice { device };
                self.wait(&Op {
                    thread: 0,
                    runtime,
                    call,
                })?;
            }
        }
        if let Some(caller) = &self.caller {
            caller.clients_rest();
        }
        self.has_work = false;
        Ok(())
    }

    /// Ends each capture on the thread that began it.
    fn end_captures(&mut self) -> Result<(), Finding> {
        for (c, thread) in self.judge.captures() {
            let does = ClientCall::EndCapture;
            let call = Call::Client { c, does };
            self.turn(&Op {
                thread,
                runtime: 0,
                call,
            })?;
        }
        Ok(())
    }

    /// Makes a call that waits until it did: one that failed may not have waited for anything.
    fn wait(&mut self, op: &Op) -> Result<(), Finding> {
        for _ in 0..TRIES {
            if self.turn(op)? {
                break;
            }
        }
        Ok(())
    }

    /// Completes each host event that is pending, the oldest place first.
    fn complete_host_events(&mut self) {
        let host_events = std::mem::take(&mut *self.host_events.lock().unwrap());
        for (host_event, status) in host_events.into_values() {
            // A completion can be what is made to fail; then it is tried again.
            let opened = (0..TRIES)
                .map(|_| host_event.complete(status))
                .find(Result::is_ok);
            self.judge.completed(opened.is_some());
        }
        self.judge.all_opened();
    }

    /// The same for all programs that run in turns: a call may be behind a stream that another program
    /// holds.
    fn complete_all_host_events(&mut self) {
        self.complete_host_events();
        for beside in &self.beside {
            for (host_event, status) in std::mem::take(&mut *beside.lock().unwrap()).into_values() {
                // Where completions fail, every program knows that calls fail.
                let _opened = (0..TRIES).any(|_| host_event.complete(status).is_ok());
            }
        }
    }

    /// Lets a thread make a call, and judges its answer; whether it was no failure.
    fn turn(&mut self, op: &Op) -> Result<bool, Finding> {
        if !self.beside.is_empty() && self.host_events.lock().unwrap().is_empty() {
            // Another program may have completed them.
            self.judge.opened();
        }
        let judge = &self.judge;
        if judge.says_nothing(&op.call, &self.peekable) || judge.goes_too_early(&op.call) {
            return Ok(true);
        }
        self.has_work |= self.faulty || op.call.may_leave_work();
        let of = self.judge.view_of(&op.call);
        let touched: Touched = self.judge.touched(&op.call);
        let caller = self
            .caller
            .take()
            .ok_or_else(|| Finding::new(What::Panic, "the places are gone"))?;
        let thread = self
            .threads
            .entry(op.thread)
            .or_insert_with(|| Thread::start(self.has_driver_faults));
        let sent = thread.requests.send((caller, op.clone(), of));
        let (caller, outcome, changed) = match sent {
            Ok(()) => self.answer(op)?,
            Err(_gone) => return Err(Finding::new(What::Panic, "the thread has ended")),
        };
        self.caller = Some(caller);
        let moves = matches!(&op.call, Call::Client { does, .. } if does.moves_context());
        if changed.place && !moves {
            let why = "the call left another context or device current on its thread";
            return Err(Finding::new(What::Answer, why));
        }
        if changed.error {
            let why = "the call left an error of its own as HIP's last one of its thread, or took the thread's own";
            return Err(Finding::new(What::Answer, why));
        }
        if changed.mode {
            let why = "the call left another mode of captures on its thread";
            return Err(Finding::new(What::Answer, why));
        }
        let is_failure = matches!(outcome, Outcome::Failed(_));
        self.judge.check(op, touched, outcome)?;
        Ok(!is_failure)
    }

    fn answer(&mut self, op: &Op) -> Result<Answer, Finding> {
        let thread = op.thread;
        let is_held = self.turns.is_some()
            || !self.host_events.lock().unwrap().is_empty()
            || self.judge.has_pending_host_events();
        // A look at memory waits for nothing, and is over before a host event is completed.
        if is_held && !matches!(op.call, Call::Peek { .. }) {
            match self.until_held(thread) {
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(why) = self.judge.must_return_while_held(&op.call) {
                        return self.without_waiting(thread, why);
                    }
                    self.complete_all_host_events();
                }
                Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
                Ok(answer) => return Ok(answer),
            }
        }
        match self.until_done(thread) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(panicked()),
            Err(RecvTimeoutError::Timeout) => {
                // A host event that was made in the meantime is completed too: one more chance.
                self.complete_all_host_events();
                self.wait_for(thread, MOMENT).map_err(|_still| self.hang())
            }
        }
    }

    /// The answer of a call, unless a host event holds it up.
    fn until_held(&mut self, thread: usize) -> Result<Answer, RecvTimeoutError> {
        match self.turns {
            Some(_) => self.until_all_sleep(thread),
            None => self.wait_for(thread, MOMENT),
        }
    }

    /// The answer of a call that nothing may hold up; `why` is what is wrong where something does.
    fn without_waiting(&mut self, thread: usize, why: &str) -> Result<Answer, Finding> {
        match self.wait_for(thread, PATIENCE) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        self.complete_all_host_events();
        match self.until_done(thread) {
            Ok(_late) => Err(Finding::new(What::Answer, why)),
            Err(RecvTimeoutError::Disconnected) => Err(panicked()),
            Err(RecvTimeoutError::Timeout) => Err(self.hang()),
        }
    }

    /// The answer of a call that no host event holds up.
    fn until_done(&mut self, thread: usize) -> Result<Answer, RecvTimeoutError> {
        match self.until_all_sleep(thread) {
            // Threads that sleep may do so for a while only.
            Err(RecvTimeoutError::Timeout) => self.wait_for(thread, self.limit),
            answer => answer,
        }
    }

    /// The answer of a call, unless every thread sleeps and the simulated devices have nothing to do.
    fn until_all_sleep(&mut self, thread: usize) -> Result<Answer, RecvTimeoutError> {
        let answers = self.threads.get(&thread).map(|thread| &thread.answers);
        let answers = answers.ok_or(RecvTimeoutError::Disconnected)?;
        let end = Instant::now() + self.limit;
        while let Some(turns) = self.turns.as_ref().filter(|_| Instant::now() < end) {
            // The one that answers wakes this thread, so that there is always one that is awake.
            let (answer, all_sleep) = turns.all_sleep(|| answers.recv_timeout(LOOK));
            let is_late = matches!(answer, Err(RecvTimeoutError::Timeout));
            if !is_late || (all_sleep && !turns.go_on()) {
                return answer;
            }
        }
        Err(RecvTimeoutError::Timeout)
    }

    /// No answer, and what the simulated devices stand still behind.
    fn hang(&self) -> Finding {
        let control = self.world.control.as_ref();
        let standstill = control.and_then(|control| control.standstill());
        let standstill = standstill.unwrap_or_else(|| driver::take_reports().join("; "));
        Finding::new(
            What::Hang,
            format!("no answer in {:?} {standstill}", self.limit),
        )
    }

    fn wait_for(&self, thread: usize, limit: Duration) -> Result<Answer, RecvTimeoutError> {
        match self.threads.get(&thread) {
            Some(thread) => thread.answers.recv_timeout(limit),
            None => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Drops everything on the first thread, and looks at what was lent. Whether all came back, and clients gave back
    /// what they had.
    fn finish(&mut self) -> Result<bool, Finding> {
        self.settle()?;
        let (done, cleared) = channel();
        let caller = self.caller.take();
        std::thread::spawn(move || {
            let mut caller = caller;
            if let Some(caller) = &mut caller {
                caller.clear();
            }
            // The limit may have passed.
            drop(done.send(caller));
        });
        let caller = cleared
            .recv_timeout(self.limit)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    Finding::new(What::Hang, "while everything was dropped")
                }
                RecvTimeoutError::Disconnected => panicked(),
            })?;
        for (_, thread) in std::mem::take(&mut self.threads) {
            drop(thread.requests);
            thread.handle.join().map_err(|_payload| panicked())?;
        }
        // Nobody waits for the releases.
        if let Some(turns) = &self.turns {
            turns.come_to_rest(self.limit);
        }
        let mut is_all_back = true;
        for lent in caller.as_ref().map_or(&[][..], |caller| caller.lent()) {
            is_all_back &= self.judge.lent(lent, self.limit)?;
        }
        if !is_all_back {
            // Clients stay: what they lent may still come back, by a stream of theirs.
            return Ok(false);
        }
        let gone = caller.map_or(Ok(()), |mut caller| caller.clients_go());
        match gone {
            Err(why) if !self.faulty => Err(Finding::new(What::Answer, why)),
            gone => Ok(gone.is_ok()),
        }
    }
}

fn panicked() -> Finding {
    Finding::new(What::Panic, "the calling thread panicked")
}

fn main(call: Call) -> Op {
    Op {
        thread: 0,
        runtime: 0,
        call,
    }
}
