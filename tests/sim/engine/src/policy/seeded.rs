//! `Seeded`: a generator picks what runs next, a little at each call and all that is needed in waits.

use std::sync::Arc;

use crate::engine::{Locked, Shared};
use crate::state::State;

/// At the start of each call, before it submits anything: none to three operations run.
pub(crate) fn at_call<'a>(shared: &'a Arc<Shared>, mut state: Locked<'a>) -> Locked<'a> {
    let most = [0, 0, 0, 0, 1, 1, 2, 3];
    let count = state.random.pick(&most).unwrap_or(0);
    for _ in 0..count {
        let Some(queue) = choose(&mut state) else {
            break;
        };
        state = shared.run(state, queue);
    }
    state
}

/// A queue whose head can run.
pub(crate) fn choose(state: &mut State) -> Option<usize> {
    let runnable = state.runnable();
    state.random.pick(&runnable)
}
