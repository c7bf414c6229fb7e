//! What is queued, and what follows from it for those who wait. `queue.rs` keeps it under its lock.

use std::collections::VecDeque;
use std::time::Instant;

use crate::failure::Failure;
use crate::sessions::job::{Answer, Job, Limits, Outcome, Phase, Running, Ticket};
use crate::sessions::queue::NOTICE;

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) waiting: VecDeque<Job>,
    pub(crate) running: Option<Running>,
    pub(crate) answers: Vec<(Ticket, Answer)>,
    /// Of requests that were asked to stop: whether they noticed.
    pub(crate) outcomes: VecDeque<(Ticket, Outcome)>,
    pub(crate) last: u64,
    pub(crate) life: Life,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    #[default]
    Open,
    /// Nothing new is begun.
    Closing,
    /// And nobody takes the interpreter's lock.
    Closed,
}

/// What a waiting caller does next.
pub(crate) enum Step {
    Wait(Option<Instant>),
    Stop,
    /// What runs will not end.
    GiveUp(Ticket),
}

impl Table {
    /// What a caller that waits for a job's answer does next.
    pub(crate) fn step(&self, ticket: Ticket, limits: Limits) -> Step {
        let running = self.running.as_ref();
        let Some(running) = running.filter(|running| running.ticket == ticket) else {
            return self.step_of_others(ticket, limits);
        };
        Self::step_of(running, limits)
    }

    /// What somebody does who keeps the limits of a job that runs.
    fn step_of(running: &Running, limits: Limits) -> Step {
        let Some(timeout) = limits.timeout else {
            return Step::Wait(None);
        };
        let timed = running.stop.filter(|stop| stop.timeouts > 0);
        let (from, delay, next) = match timed {
            None => (running.since, timeout, Step::Stop),
            Some(stop) if stop.timeouts == 1 => (stop.at, limits.grace, Step::Stop),
            Some(stop) => (stop.at, NOTICE, Step::GiveUp(running.ticket)),
        };
        match from.checked_add(delay) {
            Some(due) if due > Instant::now() => Step::Wait(Some(due)),
            Some(_) => next,
            None => Step::Wait(None),
        }
    }

    /// The time of a script begins with its turn; but nobody waits for ever behind one that was
    /// asked to stop and does not end, whether it does not notice or catches what stops it.
    fn step_of_others(&self, ticket: Ticket, limits: Limits) -> Step {
        let waits = self.waiting.iter().any(|job| job.ticket == ticket);
        let running = self.running.as_ref().filter(|_| waits);
        if let Some((running, limits)) =
            running.and_then(|running| Some((running, running.unawaited?)))
        {
            return Self::step_of(running, limits);
        }
        let stopped = running.and_then(|running| Some((running.ticket, running.stop?.since)));
        let due = stopped.and_then(|(of, since)| Some((of, since.checked_add(limits.grace)?)));
        match due {
            Some((_, due)) if due > Instant::now() => Step::Wait(Some(due)),
            Some((of, _)) => Step::GiveUp(of),
            None => Step::Wait(None),
        }
    }

    /// Who is asked to stop and has not been told by an exception yet, and since when that is due.
    pub(crate) fn unclaimed(&self) -> Option<(Ticket, Instant)> {
        let running = self.running.as_ref()?;
        let stop = running.stop.filter(|stop| !stop.is_claimed)?;
        (running.phase == Phase::Inside).then_some((running.ticket, stop.due))
    }

    /// Whether the exception was still to be raised; from now on it counts as raised.
    pub(crate) fn claim(&mut self) -> bool {
        let is_unclaimed = self.unclaimed().is_some();
        let stop = self
            .running
            .as_mut()
            .and_then(|running| running.stop.as_mut());
        if let Some(stop) = stop.filter(|_| is_unclaimed) {
            stop.is_claimed = true;
        }
        is_unclaimed
    }

    /// Answers jobs that wait without having begun them. They are given back, because their
    /// arguments may hold tensors, whose deleters must not run under the lock.
    pub(crate) fn turn_away(
        &mut self,
        which: impl Fn(u64) -> bool,
        why: impl Fn() -> Failure,
    ) -> Vec<Job> {
        let (gone, kept) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|job| job.unawaited.is_none() && which(job.work.session));
        self.waiting = kept.into();
        let awaited = gone.iter().map(|job| (job.ticket, Err(why())));
        self.answers.extend(awaited);
        gone
    }
}
