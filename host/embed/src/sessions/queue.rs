//! Which jobs wait, which one the script thread works on, and who asked it to stop.
//!
//! One table under one lock, which is never held while Python or a caller's function runs.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::threads::SignalMask;

use crate::failure::{Failure, Kind};
use crate::sessions::job::{
    Answer, Cause, Job, Limits, Outcome, Phase, Running, State, Stop, Ticket, Turn, Work, closed,
    stopped, stuck,
};
use crate::sessions::queue_state::{Life, Step, Table};
use crate::sessions::signals::{Quiet, Signals};

/// How long an interrupt is waited for: a script that runs Python code notices it within some
/// milliseconds.
pub(crate) const NOTICE: Duration = Duration::from_millis(100);

/// When the signal is sent once more; then after twice that time, and so on.
const SIGNAL_ALONE: Duration = Duration::from_millis(20);

/// The last time for a signal alone. Afterwards the exception is raised from outside as well, which
/// wakes nobody: the script may have put another handler in the place of ours.
const SIGNALS_ALONE: Duration = Duration::from_secs(1);

/// How many outcomes of interrupts are kept for those who wait for them.
const OUTCOMES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    table: Mutex<Table>,
    changed: Condvar,
    signals: OnceLock<Signals>,
}

type Locked<'a> = MutexGuard<'a, Table>;

impl JobQueue {
    pub(crate) fn set_signals(&self, signals: Signals) {
        let _set_once = self.signals.set(signals);
    }

    /// Keeps the signal of interrupts from the calling thread.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        self.signals.get().and_then(Signals::quiet)
    }

    fn lock(&self) -> Locked<'_> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_change<'a>(&self, table: Locked<'a>, until: Option<Instant>) -> Locked<'a> {
        let Some(until) = until else {
            let woken = self.changed.wait(table);
            return woken.unwrap_or_else(PoisonError::into_inner);
        };
        let left = until.saturating_duration_since(Instant::now());
        let woken = self.changed.wait_timeout(table, left);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Puts a request behind the others.
    ///
    /// # Errors
    /// [`Kind::Closed`], [`Kind::Stuck`], and [`Kind::Busy`] where it may not wait for its turn.
    pub(crate) fn post(
        &self,
        work: Work,
        unawaited: Option<Limits>,
        turn: Turn,
    ) -> Result<Ticket, Failure> {
        let mut table = self.lock();
        if table.life > Life::Open {
            return Err(closed());
        }
        let running = table.running.as_ref();
        let place = running.and_then(|running| running.stuck.as_deref());
        if let Some(place) = place.filter(|_| unawaited.is_none()) {
            return Err(stuck(place));
        }
        // What is freed is no script, but its objects may wait for a thread that a script started.
        let counts = |unawaited: Option<Limits>| unawaited.is_none() || turn == Turn::OfScript;
        let is_busy = running.is_some_and(|running| counts(running.unawaited))
            || table.waiting.iter().any(|job| counts(job.unawaited));
        let why = match turn {
            Turn::Now => "another one runs",
            Turn::OfScript => {
                "a script runs, and may wait for the thread that asks, which a script started"
            }
            Turn::Any => "",
        };
        if is_busy && turn != Turn::Any {
            return Err(Failure::new(Kind::Busy, "run a script")
                .because(why, "try again when it has ended"));
        }
        table.last += 1;
        let ticket = Ticket(table.last);
        table.waiting.push_back(Job {
            ticket,
            work,
            signals: SignalMask::current(),
            unawaited,
        });
        drop(table);
        self.changed.notify_all();
        Ok(ticket)
    }

    /// The next request, for the script thread. It never comes once the queue is closed.
    pub(crate) fn next(&self) -> Job {
        let mut table = self.lock();
        loop {
            let is_open = table.life == Life::Open;
            if let Some(job) = table.waiting.pop_front().filter(|_| is_open) {
                table.running = Some(Running {
                    ticket: job.ticket,
                    session: job.work.session,
                    since: Instant::now(),
                    phase: Phase::Entering,
                    stop: None,
                    stuck: None,
                    is_awaited: job.unawaited.is_none(),
                    unawaited: job.unawaited,
                });
                return job;
            }
            table = self.wait_for_change(table, None);
        }
    }

    /// The script's code begins: from here on it can be interrupted.
    ///
    /// # Errors
    /// It was before: it is not to begin.
    pub(crate) fn begin(&self) -> Result<(), Cause> {
        let mut table = self.lock();
        let Some(running) = &mut table.running else {
            return Ok(());
        };
        if let Some(stop) = running.stop {
            return Err(stop.cause);
        }
        running.phase = Phase::Inside;
        drop(table);
        // A caller that waits for it counts its time from here.
        self.changed.notify_all();
        Ok(())
    }

    /// The script's code has ended, with an exception or without: interrupts come too late now.
    pub(crate) fn end(&self, has_failed: bool) -> Option<Cause> {
        let mut table = self.lock();
        let running = table.running.as_mut()?;
        running.phase = Phase::Leaving;
        let (ticket, stop) = (running.ticket, running.stop?);
        // Without a failure the exception may be one that was taken back before it was raised.
        let can_tell = has_failed || self.signals.get().is_some_and(Signals::can_wake);
        let outcome = match stop.is_claimed && can_tell {
            true => Outcome::Delivered,
            false => Outcome::Idle,
        };
        table.outcomes.push_back((ticket, outcome));
        if table.outcomes.len() > OUTCOMES {
            table.outcomes.pop_front();
        }
        drop(table);
        self.changed.notify_all();
        (stop.is_claimed && has_failed).then_some(stop.cause)
    }

    /// The script thread is done with the request.
    pub(crate) fn finish(&self, answer: Answer) {
        let mut table = self.lock();
        let done = table.running.take();
        let unwanted = match done {
            Some(done) if done.is_awaited => {
                table.answers.push((done.ticket, answer));
                None
            }
            _ => Some(answer),
        };
        drop(table);
        self.changed.notify_all();
        // It may hold a tensor, whose deleter runs here.
        drop(unwanted);
    }

    /// Waits for the answer, and stops what takes too long.
    pub(crate) fn answer(&self, ticket: Ticket, limits: Limits) -> Answer {
        let mut table = self.lock();
        loop {
            if let Some(at) = table.answers.iter().position(|(of, _)| *of == ticket) {
                return table.answers.swap_remove(at).1;
            }
            table = match table.step(ticket, limits) {
                Step::Wait(until) => self.wait_for_change(table, until),
                Step::Stop => {
                    self.request(&mut table, Cause::Timeout);
                    table
                }
                Step::GiveUp(of) => {
                    drop(table);
                    match self.give_up(ticket, of) {
                        Some(failure) => return Err(failure),
                        None => self.lock(),
                    }
                }
            };
        }
    }

    /// Nobody waits behind what runs, nor for it where it is the caller's own. Gives the failure of
    /// that one; all others are answered.
    fn give_up(&self, ticket: Ticket, of: Ticket) -> Option<Failure> {
        let place = self.signals.get().and_then(Signals::place);
        let place = place.map_or_else(
            || "at a place that is not known".to_owned(),
            |place| format!("at {place}"),
        );
        let mut table = self.lock();
        let is_own = of == ticket;
        // It may have ended meanwhile.
        let running = table.running.as_mut();
        let running = running.filter(|running| running.ticket == of)?;
        running.stuck = Some(place.clone());
        running.is_awaited &= !is_own;
        let turned_away = table.turn_away(|_| true, || stuck(&place));
        drop(table);
        self.changed.notify_all();
        drop(turned_away);
        is_own.then(|| stuck(&place))
    }

    /// Asks what runs to stop, by a signal and by waking who raises the exception.
    fn request(&self, table: &mut Table, cause: Cause) {
        let Some(running) = &mut table.running else {
            return;
        };
        let (before, now) = (running.stop, Instant::now());
        let timeouts = before.map_or(0, |stop| stop.timeouts);
        running.stop = Some(Stop {
            cause: before.map_or(cause, |stop| stop.cause),
            at: now,
            due: now,
            since: before.map_or(now, |stop| stop.since),
            timeouts: timeouts + u32::from(cause == Cause::Timeout),
            is_claimed: false,
        });
        self.wake(table);
        self.changed.notify_all();
    }

    /// Sends the script thread its signal, where it runs a script.
    fn wake(&self, table: &Table) {
        let running = table.running.as_ref();
        let is_inside = running.is_some_and(|running| running.phase == Phase::Inside);
        if let Some(signals) = self.signals.get().filter(|_| is_inside) {
            signals.wake();
        }
    }

    /// Interrupts what a session runs, and forgets what waits for its turn.
    pub(crate) fn interrupt(&self, session: u64, may_wait: bool) -> Outcome {
        let mut table = self.lock();
        let turned_away = table.turn_away(|of| of == session, || stopped(Cause::Interrupt));
        let has_waited = !turned_away.is_empty();
        let running = table.running.as_ref();
        let ticket = running
            .filter(|running| running.session == session && running.phase != Phase::Leaving)
            .map(|running| running.ticket);
        if ticket.is_some() {
            self.request(&mut table, Cause::Interrupt);
        }
        self.changed.notify_all();
        let outcome = match ticket {
            Some(ticket) if may_wait => self.outcome(table, ticket),
            Some(_) => Outcome::Pending,
            None if has_waited => Outcome::Delivered,
            None => Outcome::Idle,
        };
        drop(turned_away);
        outcome
    }

    fn outcome(&self, mut table: Locked<'_>, ticket: Ticket) -> Outcome {
        let until = Instant::now() + NOTICE;
        loop {
            if let Some((_, outcome)) = table.outcomes.iter().find(|(of, _)| *of == ticket) {
                return *outcome;
            }
            if Instant::now() >= until {
                return Outcome::Pending;
            }
            table = self.wait_for_change(table, Some(until));
        }
    }

    /// Whether the exception of a request to stop is to be raised now, by the thread that asks first.
    pub(crate) fn claim(&self) -> bool {
        self.lock().claim()
    }

    /// Has the exception raised once more, where it was raised: Python ignored it, as it does in the callback
    /// of a weak reference. Says whether there was one.
    pub(crate) fn raise_again(&self) -> bool {
        let mut table = self.lock();
        let running = table.running.as_mut();
        let running = running.filter(|running| running.phase == Phase::Inside);
        let stop = running.and_then(|running| running.stop.as_mut());
        let Some(stop) = stop.filter(|stop| stop.is_claimed) else {
            return false;
        };
        (stop.is_claimed, stop.due) = (false, Instant::now());
        drop(table);
        self.changed.notify_all();
        true
    }

    /// Waits until somebody has to raise the exception from outside, and says for which request.
    pub(crate) fn overdue(&self) -> Ticket {
        let mut table = self.lock();
        // A signal that comes just before the script blocks does not end that, so it is sent again: an
        // exception from outside would not end it either.
        let mut woken: Option<(Ticket, Duration)> = None;
        loop {
            let can_wake = self.signals.get().is_some_and(Signals::can_wake);
            let due = table.unclaimed().map(|(ticket, at)| {
                let last = woken.filter(|(of, _)| *of == ticket);
                let next = last.map_or(SIGNAL_ALONE, |(_, after)| after * 2);
                let after = if can_wake { next } else { Duration::ZERO };
                (
                    ticket,
                    at + after,
                    (next <= SIGNALS_ALONE && can_wake).then_some(next),
                )
            });
            match due.filter(|_| table.life < Life::Closed) {
                Some((ticket, at, None)) if at <= Instant::now() => return ticket,
                Some((ticket, at, Some(after))) if at <= Instant::now() => {
                    woken = Some((ticket, after));
                    self.wake(&table);
                }
                Some((_, at, _)) => table = self.wait_for_change(table, Some(at)),
                None => table = self.wait_for_change(table, None),
            }
        }
    }

    /// As [`Self::claim`], for one request only.
    pub(crate) fn claim_for(&self, ticket: Ticket) -> bool {
        let mut table = self.lock();
        table.unclaimed().is_some_and(|(of, _)| of == ticket) && table.claim()
    }

    /// What a session does.
    pub(crate) fn state(&self, session: u64) -> State {
        let table = self.lock();
        let running = table.running.as_ref();
        if let Some(running) = running.filter(|running| running.session == session) {
            let since = running.since.elapsed();
            return match (&running.stuck, running.stop) {
                (Some(place), _) => State::Stuck(since, place.clone()),
                (None, Some(_)) => State::Stopping(since),
                (None, None) => State::Running(since),
            };
        }
        let mut waiting = table.waiting.iter();
        match waiting.any(|job| job.work.session == session && job.unawaited.is_none()) {
            true => State::Waiting,
            false => State::Idle,
        }
    }

    /// Whether nobody takes the interpreter's lock any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().life == Life::Closed
    }

    /// Begins nothing new, stops what runs, and waits that long for it. Afterwards nobody takes the
    /// interpreter's lock.
    pub(crate) fn close(&self, limit: Duration) {
        let mut table = self.lock();
        table.life = table.life.max(Life::Closing);
        let turned_away = table.turn_away(|_| true, closed);
        self.request(&mut table, Cause::Exit);
        self.changed.notify_all();
        let until = Instant::now() + limit;
        while table.running.is_some() && Instant::now() < until {
            table = self.wait_for_change(table, Some(until));
        }
        table.life = Life::Closed;
        drop(table);
        drop(turned_away);
    }
}
