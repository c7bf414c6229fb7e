//! `Threads`: workers run what can run, as soon as they can, some of it late.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::engine::{Locked, Shared};
use crate::random::Random;

/// Host code can store a word that a stream waits for without telling anybody.
pub(crate) const WORD_POLL: Duration = Duration::from_millis(1);

/// The life of one worker.
pub(crate) fn work(shared: &Arc<Shared>, worker: usize) {
    let mut random = Random::new(shared.config.seed ^ u64::try_from(worker + 1).unwrap_or(0) << 32);
    let mut state = shared.lock();
    while !state.over {
        let Some(queue) = random.pick(&state.runnable()) else {
            state = pause(shared, state, None);
            continue;
        };
        let late = u64::try_from(shared.config.delay.as_nanos()).unwrap_or(u64::MAX);
        if late > 0 && random.below(2) == 0 {
            state = pause(
                shared,
                state,
                Some(Duration::from_nanos(random.below(late))),
            );
            // Others may have run it, and others may have come.
            let Some(queue) = random.pick(&state.runnable()) else {
                continue;
            };
            state = shared.run(state, queue);
        } else {
            state = shared.run(state, queue);
        }
    }
}

/// Waits for a change, at most so long, and no longer than memory waits allow.
pub(crate) fn pause<'a>(shared: &Shared, state: Locked<'a>, limit: Option<Duration>) -> Locked<'a> {
    let poll = state.watches_words().then_some(WORD_POLL);
    match [limit, poll].into_iter().flatten().min() {
        None => shared
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner),
        Some(limit) => {
            let waited = shared.changed.wait_timeout(state, limit);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
    }
}
