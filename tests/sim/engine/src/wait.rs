//! Waits of calling threads: what is waited for, who runs things meanwhile, and when it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{Locked, Shared};
use crate::op::Point;
use crate::policy::lazy::{Need, need};
use crate::policy::{seeded, threads};
use crate::state::State;
use crate::{Error, Policy};

/// What a call waits for.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    Point(Arc<Point>),
    /// Streams, and how much of each must be done.
    Streams(Vec<(u64, u64)>),
    /// That nothing is pending. Any operation that can run counts towards it, so `Lazy` runs all of them.
    Everything,
}

impl State {
    pub(crate) fn reached(&self, goal: &Goal) -> bool {
        match goal {
            Goal::Point(point) => point.done.get().is_some(),
            Goal::Streams(streams) => streams.iter().all(|&goal| self.passed(goal)),
            Goal::Everything => self.pending == 0,
        }
    }

    fn passed(&self, (stream, count): (u64, u64)) -> bool {
        self.streams
            .get(&stream)
            .is_none_or(|s| s.completed >= count)
    }

    /// The queue with the operation that was submitted first, of those that can run.
    pub(crate) fn first_runnable(&self) -> Option<usize> {
        let id = |&queue: &usize| {
            self.queues
                .get(queue)
                .and_then(|q| q.ops.front())
                .map(|o| o.id)
        };
        self.runnable().into_iter().min_by_key(id)
    }

    /// The queues that a goal stands in.
    fn queues_of(&self, goal: &Goal) -> Vec<usize> {
        match goal {
            Goal::Point(point) => point.queue.into_iter().collect(),
            Goal::Streams(streams) => {
                let open = streams.iter().filter(|&&goal| !self.passed(goal));
                open.filter_map(|(s, _)| self.streams.get(s))
                    .map(|s| s.queue)
                    .collect()
            }
            Goal::Everything => {
                let open = |&q: &usize| self.queues.get(q).is_some_and(|q| !q.ops.is_empty());
                (0..self.queues.len()).filter(open).collect()
            }
        }
    }

    /// The queue to run next for a goal that only waiting threads drive.
    pub(crate) fn needed(&self, goal: &Goal) -> Option<usize> {
        if self.held > 0 {
            return None;
        }
        self.queues_of(goal)
            .into_iter()
            .find_map(|queue| match need(self, queue) {
                Need::Run(queue) => Some(queue),
                Need::Host | Need::Cycle(_) => None,
            })
    }

    /// A queue of a circle of waits that keeps the goal from ever being reached.
    pub(crate) fn circle(&self, goal: &Goal) -> Option<usize> {
        if self.held > 0 {
            return None;
        }
        self.queues_of(goal)
            .into_iter()
            .find_map(|queue| match need(self, queue) {
                Need::Cycle(queue) => Some(queue),
                Need::Host | Need::Run(_) => None,
            })
    }

    /// Notes whether anything moved, in a wait that goes on or that follows another one closely: hosts
    /// wait in slices.
    fn look_whether_still(&mut self, standstill: Duration) {
        let now = Instant::now();
        let is_apart = now.duration_since(self.waited) > standstill / 4;
        if is_apart || self.still.0 != self.ran || self.held > 0 || self.is_busy() {
            self.still = (self.ran, now);
        }
        self.waited = now;
    }

    fn choose(&mut self, goal: &Goal) -> Option<usize> {
        match (self.config.policy, goal) {
            (Policy::Threads, _) => None,
            (Policy::Seeded, _) => seeded::choose(self),
            (Policy::Lazy, _) => self.needed(goal),
        }
    }
}

impl Shared {
    /// Waits for a goal and runs what the policy runs meanwhile.
    pub(crate) fn block<'a>(
        self: &'a Arc<Self>,
        mut state: Locked<'a>,
        goal: &Goal,
        limit: Option<Duration>,
    ) -> Result<Locked<'a>, Error> {
        let began = Instant::now();
        loop {
            state.look_whether_still(self.config.standstill);
            if state.reached(goal) {
                return Ok(state);
            }
            let late = limit.is_some_and(|limit| began.elapsed() >= limit);
            if let Some(queue) = state.choose(goal) {
                state = self.run(state, queue);
                // One operation runs even without any time, so that polling by waits ends too.
                if !late {
                    continue;
                }
            }
            if let Some(queue) = state.circle(goal) {
                let report = state.standstill_at(queue);
                state.add(report.clone());
                return Err(Error::Standstill(Box::new(report)));
            }
            if late && !state.reached(goal) {
                return Err(Self::late(&state, goal));
            }
            let since = state.still.1;
            let patience = self.config.standstill.saturating_sub(since.elapsed());
            if patience.is_zero() {
                if let Some(report) = state.stands_still() {
                    state.add(report);
                }
                state.still.1 = Instant::now();
            }
            let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
            let patience = patience.max(Duration::from_millis(1));
            let pause = left.map_or(patience, |left| left.min(patience));
            state = threads::pause(self, state, Some(pause));
            state = self.next_turn(state);
            state.waited = Instant::now();
        }
    }

    /// What to say when the limit passed: that everything stands still, where a drain met that.
    fn late(state: &State, goal: &Goal) -> Error {
        let drains = matches!(goal, Goal::Everything);
        match state.stands_still().filter(|_| drains) {
            Some(report) => Error::Standstill(Box::new(report)),
            None => Error::TimedOut,
        }
    }
}
