//! The interpreter: hands out the turns, one call at a time, and holds each answer against the model.
//!
//! A call that a pending host event holds up gives the turn back after a moment: then all host
//! events are completed, and the call has to end. So the order of calls is the program's, on however
//! many threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::caller::{Caller, HostEvents, Outcome};
use crate::judge::{Judge, Touched};
use crate::model::View;
use crate::program::{Call, Op};
use crate::verdict::{Finding, What};
use crate::world::World;

/// How long a call behind a pending host event may show that it does not wait.
const MOMENT: Duration = Duration::from_millis(25);

/// How often an event is completed whose completion fails, and a wait is made that fails.
const TRIES: usize = 40;

/// What a thread is asked to do.
type Turn = (Box<dyn Caller>, Op, Option<View>);

/// A program in the making: its places, its model and its threads.
pub(crate) struct Run {
    world: Arc<World>,
    judge: Judge,
    host_events: HostEvents,
    slots: Option<Box<dyn Caller>>,
    threads: BTreeMap<usize, Thread>,
    limit: Duration,
    /// The devices whose memory can be looked at while a stream is held.
    peekable: Vec<bool>,
}

struct Thread {
    turns: Sender<Turn>,
    answers: Receiver<(Box<dyn Caller>, Outcome)>,
    handle: JoinHandle<()>,
}

impl Thread {
    fn start() -> Self {
        let (turns, to_do) = channel::<Turn>();
        let (done, answers) = channel();
        let handle = std::thread::spawn(move || {
            while let Ok((mut slots, op, of)) = to_do.recv() {
                let outcome = slots.perform(&op, of.as_ref());
                if done.send((slots, outcome)).is_err() {
                    return;
                }
            }
        });
        Self {
            turns,
            answers,
            handle,
        }
    }
}

impl Run {
    /// An empty program in a world. Where calls are made to fail, errors are answers.
    pub(crate) fn new(world: &Arc<World>, faulty: bool, limit: Duration) -> Self {
        let slots = world.caller();
        Self {
            world: Arc::clone(world),
            judge: Judge::new(faulty),
            host_events: slots.host_events(),
            slots: Some(slots),
            threads: BTreeMap::new(),
            limit,
            peekable: world.peekable.clone(),
        }
    }

    /// Runs all operations, reads every tensor and drops everything. `begun` hears of each operation
    /// and the tensors before it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn all(
        mut self,
        ops: &[Op],
        begun: &dyn Fn(usize, &dyn Caller),
    ) -> Result<usize, Finding> {
        for (index, op) in ops.iter().enumerate() {
            if let Some(slots) = &self.slots {
                begun(index, slots.as_ref());
            }
            self.step(op).map_err(|finding| finding.at(index, op))?;
        }
        self.settle()?;
        for t in self.judge.tensors() {
            self.step(&main(Call::Read { t }))
                .map_err(|finding| finding.at(ops.len(), &main(Call::Read { t })))?;
        }
        self.finish()?;
        Ok(self.judge.refused)
    }

    /// One operation, and before and after it a rest of everything where memory has two owners.
    fn step(&mut self, op: &Op) -> Result<(), Finding> {
        let shared = self.judge.is_shared(&op.call);
        if shared {
            self.settle()?;
        }
        self.turn(op)?;
        if shared {
            self.settle()?;
        }
        Ok(())
    }

    /// Completes all host events, and waits for all streams and devices.
    fn settle(&mut self) -> Result<(), Finding> {
        self.complete_host_events();
        let streams = self.slots.as_ref().map(|slots| slots.streams());
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
        self.judge.opened();
    }

    /// Lets a thread make a call, and judges its answer; whether it was no failure.
    fn turn(&mut self, op: &Op) -> Result<bool, Finding> {
        if self.judge.is_idle(&op.call, &self.peekable) {
            return Ok(true);
        }
        let of = self.judge.view_of(&op.call);
        let touched: Touched = self.judge.touched(&op.call);
        let slots = self
            .slots
            .take()
            .ok_or_else(|| Finding::new(What::Panic, "the places are gone"))?;
        let thread = self.threads.entry(op.thread).or_insert_with(Thread::start);
        let sent = thread.turns.send((slots, op.clone(), of));
        let (slots, outcome) = match sent {
            Ok(()) => self.answer(op)?,
            Err(_gone) => return Err(Finding::new(What::Panic, "the thread has ended")),
        };
        self.slots = Some(slots);
        let is_failure = matches!(outcome, Outcome::Failed(_));
        self.judge.check(op, touched, outcome)?;
        Ok(!is_failure)
    }

    fn answer(&mut self, op: &Op) -> Result<(Box<dyn Caller>, Outcome), Finding> {
        let thread = op.thread;
        let is_held =
            !self.host_events.lock().unwrap().is_empty() || self.judge.has_pending_host_events();
        // A look at memory waits for nothing, and is over before a host event is completed.
        if is_held && !matches!(op.call, Call::Peek { .. }) {
            match self.wait_for(thread, MOMENT) {
                Err(RecvTimeoutError::Timeout) => self.complete_host_events(),
                Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
                Ok(answer) => return Ok(answer),
            }
        }
        match self.wait_for(thread, self.limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(panicked()),
            Err(RecvTimeoutError::Timeout) => {
                // A host event that was made in the meantime is completed too: one more chance.
                self.complete_host_events();
                self.wait_for(thread, MOMENT).map_err(|_still| self.hang())
            }
        }
    }

    /// No answer, and what the simulated devices stand still behind.
    fn hang(&self) -> Finding {
        let control = self.world.control.as_ref();
        let standstill = control
            .and_then(|control| control.standstill())
            .unwrap_or_default();
        Finding::new(
            What::Hang,
            format!("no answer in {:?} {standstill}", self.limit),
        )
    }

    fn wait_for(
        &self,
        thread: usize,
        limit: Duration,
    ) -> Result<(Box<dyn Caller>, Outcome), RecvTimeoutError> {
        match self.threads.get(&thread) {
            Some(thread) => thread.answers.recv_timeout(limit),
            None => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Drops everything on the first thread, and looks at what was lent.
    fn finish(&mut self) -> Result<(), Finding> {
        self.settle()?;
        let (done, cleared) = channel();
        let slots = self.slots.take();
        std::thread::spawn(move || {
            let mut slots = slots;
            if let Some(slots) = &mut slots {
                slots.clear();
            }
            // The limit may have passed.
            drop(done.send(slots));
        });
        let slots = cleared
            .recv_timeout(self.limit)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    Finding::new(What::Hang, "while everything was dropped")
                }
                RecvTimeoutError::Disconnected => panicked(),
            })?;
        for (_, thread) in std::mem::take(&mut self.threads) {
            drop(thread.turns);
            thread.handle.join().map_err(|_payload| panicked())?;
        }
        let lent = slots.as_ref().map_or(&[][..], |slots| slots.lent());
        lent.iter()
            .try_for_each(|lent| self.judge.lent(lent, self.limit))
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
