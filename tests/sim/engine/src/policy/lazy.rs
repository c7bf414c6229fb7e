//! `Lazy`: runs only what a goal depends on.

use crate::op::Body;
use crate::schedule::Blocked;
use crate::state::State;

/// What a search for something to run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The head of this queue can run, and the goal needs it.
    Run(usize),
    /// Host code must do something first, or a host function runs.
    Host,
    /// The blocked queues wait for each other; this is one of them.
    Cycle(usize),
}

/// Searches what the head of `queue` needs to be passed.
pub(crate) fn need(state: &State, queue: usize) -> Need {
    follow(state, queue, &mut Vec::new())
}

fn follow(state: &State, queue: usize, passed: &mut Vec<usize>) -> Need {
    if passed.contains(&queue) {
        return Need::Cycle(queue);
    }
    passed.push(queue);
    let found = match state.blocked(queue) {
        None => Need::Run(queue),
        Some(Blocked::Empty | Blocked::Busy) => Need::Host,
        Some(Blocked::On(point)) => match point.queue {
            None => Need::Host,
            Some(next) => follow(state, next, passed),
        },
        Some(Blocked::Word(address)) => follow_word(state, address, passed),
    };
    passed.pop();
    found
}

/// A memory wait ends by any of the writes to its word; by host code, if there are none.
fn follow_word(state: &State, address: u64, passed: &mut Vec<usize>) -> Need {
    let writes = |body: &Body| matches!(body, Body::WriteWord(word) if word.address == address);
    let mut answer = Need::Host;
    for (next, queue) in state.queues.iter().enumerate() {
        if !queue.ops.iter().any(|op| writes(&op.body)) {
            continue;
        }
        match follow(state, next, passed) {
            Need::Run(queue) => return Need::Run(queue),
            Need::Host => return Need::Host,
            cycle @ Need::Cycle(_) => answer = cycle,
        }
    }
    answer
}
