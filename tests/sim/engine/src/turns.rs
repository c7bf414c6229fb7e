//! Turns: of all threads of the process one runs at a time, from one call of the engine to the next,
//! in an order that the seed decides.
//!
//! A thread that wants a turn waits until every other thread sleeps or waits for a turn too. So it does not
//! matter how fast a thread is that another one woke.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::others::{Others, own_id};
use crate::random::Random;

/// The threads that want a turn.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    others: Mutex<Others>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    random: Random,
    waiting: BTreeSet<Age>,
    /// Whose turn it is, until it noticed.
    next: Option<Age>,
    /// Who looks whether all others sleep: one of those that wait.
    watcher: Option<Age>,
}

/// Orders threads as they were made. Ids rise, and begin anew behind the highest that the system gives.
type Age = (bool, u32);

fn own_age() -> Age {
    let own = own_id();
    (own < std::process::id(), own)
}

impl Turns {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(State {
                random: Random::new(seed),
                waiting: BTreeSet::new(),
                next: None,
                watcher: None,
            }),
            others: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether a thread waits for a turn.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Waits for a turn of the calling thread, which lasts until its next one.
    pub(crate) fn take(&self) {
        let own = own_age();
        let mut state = self.state();
        state.waiting.insert(own);
        let mut looks = 0;
        loop {
            if state.next == Some(own) {
                return self.begin(state, own);
            }
            let watcher = *state.watcher.get_or_insert(own);
            if watcher != own || state.next.is_some() {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            let all_sleep = lock(&self.others).sleep();
            if !all_sleep {
                rest(looks);
                looks += 1;
            }
            state = self.state();
            if all_sleep {
                let waiting: Vec<Age> = state.waiting.iter().copied().collect();
                state.next = match waiting.as_slice() {
                    [only] => Some(*only),
                    several => state.random.pick(several),
                };
                if state.next != Some(own) {
                    self.changed.notify_all();
                }
            }
        }
    }

    /// The turn begins; another of those that wait looks for the next one.
    fn begin(&self, mut state: MutexGuard<'_, State>, own: Age) {
        state.next = None;
        state.waiting.remove(&own);
        if state.watcher == Some(own) {
            state.watcher = state.waiting.first().copied();
        }
        if !state.waiting.is_empty() {
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets others run; those that run for long are looked at less often.
fn rest(looks: u32) {
    if looks < 20 {
        std::thread::yield_now();
    } else {
        std::thread::park_timeout(Duration::from_micros(50));
    }
}
