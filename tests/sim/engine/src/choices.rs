//! The choices of `Seeded`: written down, and taken from a list in the generator's place.
//!
//! A choice is a step where more than one thing could be done next. Its first possibility is what `Seeded` without a
//! list does least by: at a call to run nothing, in a wait to run what was submitted first. The others are numbered
//! behind it, so a list has the steps alone where something else is done.

use std::collections::BTreeMap;
use std::fmt;

/// Where a choice is made: in which call, and the how manieth of it, both counted from the beginning.
///
/// A call keeps its number whatever was chosen before, where the program makes the same calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step {
    /// The number of the call.
    pub call: u64,
    /// 0 for its first choice.
    pub nth: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.call, self.nth)
    }
}

/// Which possibility is taken at a step: those that are absent take the first one, 0.
pub type Schedule = BTreeMap<Step, usize>;

/// What is known of the choices so far.
#[derive(Debug)]
pub(crate) struct Choices {
    given: Option<Schedule>,
    made: Option<Schedule>,
    next: Step,
}

impl Choices {
    pub(crate) fn new(given: Option<&Schedule>, are_noted: bool) -> Self {
        Self {
            given: given.cloned(),
            made: are_noted.then(Schedule::new),
            next: Step { call: 0, nth: 0 },
        }
    }

    /// Whether anybody asks for them.
    pub(crate) const fn matter(&self) -> bool {
        self.given.is_some() || self.made.is_some()
    }

    /// Chooses among so many possibilities, in this call: by the list, or else as `draw` does.
    pub(crate) fn choose(
        &mut self,
        call: u64,
        count: usize,
        draw: impl FnOnce() -> usize,
    ) -> usize {
        if !self.matter() {
            return draw();
        }
        // Where there is one possibility there is no step.
        if count < 2 {
            return self.given.as_ref().map_or_else(draw, |_| 0);
        }
        if self.next.call != call {
            self.next = Step { call, nth: 0 };
        }
        let step = self.next;
        self.next.nth += 1;
        let chosen = match &self.given {
            // A list of another run may name what is not there.
            Some(given) => given
                .get(&step)
                .map_or(0, |chosen| *chosen.min(&(count - 1))),
            None => draw(),
        };
        if let Some(made) = self.made.as_mut().filter(|_| chosen != 0) {
            made.insert(step, chosen);
        }
        chosen
    }

    /// Those that were no first possibility.
    pub(crate) fn made(&self) -> Schedule {
        self.made.clone().unwrap_or_default()
    }
}
