//! What a process leaves as it exits: it is checked as ever and not run, but for copies and fills inside of memory that
//! the simulator allocated. Other host memory may be gone by then, and what a host function would need, too.

use crate::op::Body;
use crate::state::{Phase, State};
use crate::{Condition, Engine, Word};

impl Engine {
    /// Judges all work that is left and that can run, in the order of submission. From here on no byte of host memory
    /// is read or written but what the simulator allocated, and no host function is called: what stands behind one is judged as if it had returned. What
    /// runs at this moment is not waited for, and neither is what host code would have to do first.
    pub fn judge_what_is_left(&self) {
        let Ok(mut state) = self.shared.here() else {
            return;
        };
        state.only_judges = true;
        loop {
            while let Some(queue) = state.first_runnable() {
                let _done = state.start(queue);
            }
            if !state.end_what_has_its_link() {
                break;
            }
        }
        self.shared.tell_all();
    }
}

impl State {
    /// Ends what waits for nothing but its link: nobody measures that time any more. Whether there was something.
    fn end_what_has_its_link(&mut self) -> bool {
        let mut is_any = false;
        for at in 0..self.queues.len() {
            let queue = self.queues.get_mut(at);
            let has_link = |phase| matches!(phase, Phase::Until(_));
            let busy = queue.and_then(|queue| queue.busy.take_if(|busy| has_link(busy.phase)));
            if let Some(busy) = busy {
                self.finish(at, busy.stream, busy.clock, busy.failed);
                self.forget_stream(busy.stream);
                is_any = true;
            }
        }
        is_any
    }

    /// Whether a wait for a word is over. One in memory that may be gone is not looked at.
    pub(crate) fn can_pass(&self, word: Word, condition: Condition) -> bool {
        self.is_there(word.address) && self.satisfied(word, condition)
    }

    /// Whether an operation moves bytes in memory alone that is sure to be there still: streams may wait for those.
    pub(crate) fn is_inside(&self, body: &Body) -> bool {
        match body {
            Body::Copy { target, source, .. } => {
                self.arena.contains(*target) && self.arena.contains(*source)
            }
            Body::Fill { target, .. } => self.arena.contains(*target),
            _ => false,
        }
    }

    /// Whether a word is in memory that is sure to be there still.
    pub(crate) fn is_there(&self, address: u64) -> bool {
        !self.only_judges || self.arena.contains(address)
    }
}
