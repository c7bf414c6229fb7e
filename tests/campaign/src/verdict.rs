//! What a trial found.

use std::collections::BTreeSet;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

use crate::program::Op;

/// The kinds of findings; a smaller program has to fail with the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what the campaigns look for")]
pub enum What {
    /// Bytes that were not put there, or were put there too early.
    WrongByte,
    /// A call that never answers.
    Hang,
    /// The process was ended by a signal.
    Signal,
    /// Some thread panicked.
    Panic,
    /// A failure that nothing explains, or success where there has to be a refusal.
    Answer,
    /// Something is alive that nobody has.
    Left,
    /// A report of the simulated engine.
    Report,
    /// The process ended with the wrong code.
    Code,
    /// An error that could be told to nobody but the log, and that nothing explains.
    Logged,
}

/// One finding, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub what: What,
    /// In words.
    pub text: String,
}

impl Finding {
    /// A finding in words.
    #[must_use]
    pub fn new(what: What, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { what, text }
    }

    /// The same with the operation where it was seen.
    #[must_use]
    pub fn at(self, index: usize, op: &Op) -> Self {
        let text = format!("{} (operation {index}: {:?})", self.text, op.call);
        Self { text, ..self }
    }
}

/// What became of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Verdict {
    /// Nothing is wrong; so many calls were refused with a reason.
    Passed {
        /// How many.
        refused: usize,
        /// Whether the process is to make no more trials: faults left something behind in it.
        spent: bool,
        /// States that it came to, which programs seldom reach.
        #[serde(default)]
        reached: BTreeSet<String>,
    },
    /// Something is wrong.
    Found(Finding),
}

/// What a program came to in which nothing is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Calls that were refused with a reason.
    pub(crate) refused: usize,
    /// States that it came to.
    pub(crate) reached: BTreeSet<String>,
    /// Clients stayed, as what they lent never came back.
    pub(crate) has_clients: bool,
}

impl Sum for Passed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.refused += one.refused;
            sum.reached.extend(one.reached);
            sum.has_clients |= one.has_clients;
            sum
        })
    }
}
