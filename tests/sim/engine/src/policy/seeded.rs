//! `Seeded`: a generator picks what runs next, a little at each call and all that is needed in waits.

use std::sync::Arc;

use crate::engine::{Locked, Shared};
use crate::random::Random;
use crate::state::State;

/// At the start of each call, before it submits anything: up to three operations run.
pub(crate) fn at_call<'a>(shared: &'a Arc<Shared>, mut state: Locked<'a>) -> Locked<'a> {
    let count = at_this_call(&mut state.random);
    for round in 0..3 {
        let stops = round >= count;
        if stops && !state.choices.matter() {
            break;
        }
        let Some(queue) = pick(&mut state, Some(stops)) else {
            break;
        };
        state = shared.run(state, queue);
    }
    state
}

/// The pace at which devices are done at calls: one of three, by the seed.
const OFTEN: u64 = 1;
const SELDOM: u64 = 2;

const fn pace_of(random: &Random) -> u64 {
    random.seed() % 3
}

/// How many operations run at a call. A device that is done at almost every call hides what reads too early, and one
/// that never is hides what goes wrong once it is: of three seeds in a row, by one it is often done, by one
/// seldom, and by one hardly ever before somebody waits.
fn at_this_call(random: &mut Random) -> usize {
    match pace_of(random) {
        OFTEN => random.pick(&[0, 0, 0, 0, 1, 1, 2, 3]).unwrap_or(0),
        SELDOM => usize::from(random.below(16) == 0),
        _ => usize::from(random.below(128) == 0),
    }
}

/// What runs behind a question that was answered by no: where little runs at calls, the fourth of them has something, so
/// that who asks again and again has not to ask for ever.
pub(crate) fn behind_a_vain_query(state: &mut State) -> Option<usize> {
    if pace_of(&state.random) == OFTEN {
        return None;
    }
    let stops = state.random.below(4) != 0;
    if stops && !state.choices.matter() {
        return None;
    }
    pick(state, Some(stops))
}

/// A queue whose head can run.
pub(crate) fn choose(state: &mut State) -> Option<usize> {
    pick(state, None)
}

/// The same, or none of them where that is a possibility too: then whether the generator is for it.
fn pick(state: &mut State, stops: Option<bool>) -> Option<usize> {
    let runnable = state.runnable();
    let mut oldest = runnable.clone();
    oldest.sort_by_key(|queue| {
        let head = state.queues.get(*queue).and_then(|q| q.ops.front());
        head.map(|op| op.id)
    });
    let before = usize::from(stops.is_some());
    let State {
        choices,
        random,
        calls,
        ..
    } = state;
    let draw = || {
        let drawn = (stops != Some(true)).then(|| random.pick(&runnable));
        let rank = drawn
            .flatten()
            .and_then(|queue| oldest.iter().position(|other| *other == queue));
        rank.map_or(0, |rank| rank + before)
    };
    let chosen = choices.choose(*calls, oldest.len() + before, draw);
    oldest.get(chosen.checked_sub(before)?).copied()
}
