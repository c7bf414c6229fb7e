//! The kinds of campaigns: each gives its cases by number.

mod apart;
mod blocked;
mod failures;
mod layouts;
mod leaving;
mod random;
mod refused;
mod synchronous;

pub(crate) use self::blocked::each_call;

use crate::plan::Plan;
use crate::program::Case;

/// A kind of campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of the command line")]
pub enum Kind {
    /// Every call that takes a stream, on a stream that is held.
    Blocked,
    /// Random programs, with and without faults.
    Random,
    /// Exit and fork at a random moment.
    Leaving,
    /// Layouts of all sorts.
    Layouts,
    /// Waits for work that nothing holds, beside work that is held.
    Apart,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Blocked,
        Self::Random,
        Self::Leaving,
        Self::Layouts,
        Self::Apart,
    ];

    /// The kind of a letter.
    #[must_use]
    pub fn of(letter: &str) -> Option<Self> {
        match letter {
            "a" => Some(Self::Blocked),
            "b" => Some(Self::Random),
            "c" => Some(Self::Leaving),
            "d" => Some(Self::Layouts),
            "f" => Some(Self::Apart),
            _ => None,
        }
    }

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "a blocked streams",
            Self::Random => "b random programs",
            Self::Leaving => "c exit and fork",
            Self::Layouts => "d layouts",
            Self::Apart => "f work apart",
        }
    }

    /// How many parts of a time that the kinds share it has: random programs find most of what nobody thought of.
    #[must_use]
    pub const fn weight(self) -> u32 {
        match self {
            Self::Random => 6,
            _ => 1,
        }
    }

    /// Whether its cases are programs of seeds, one of which can be chosen.
    #[must_use]
    pub const fn has_seeds(self) -> bool {
        matches!(self, Self::Random | Self::Leaving)
    }

    /// How many cases there are over these devices.
    #[must_use]
    pub fn count(self, devices: &[String], plan: &Plan) -> u64 {
        match self {
            Self::Blocked => blocked::count(devices),
            Self::Random => random::count(plan),
            Self::Leaving => leaving::count(plan),
            Self::Layouts => layouts::count(devices, plan.programs()),
            Self::Apart => apart::count(devices),
        }
    }

    /// The case of a number below the count.
    #[must_use]
    pub fn case(self, devices: &[String], plan: &Plan, number: u64) -> Case {
        match self {
            Self::Blocked => blocked::case(devices, plan.language, number),
            Self::Random => random::case(devices, plan, number),
            Self::Leaving => leaving::case(devices, plan, number),
            Self::Layouts => layouts::case(devices, number),
            Self::Apart => apart::case(devices, number),
        }
    }
}
