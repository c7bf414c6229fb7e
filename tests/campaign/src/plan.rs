//! What a campaign runs: which seeds, with which faults, how long, and which part of it.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crossdock_sdk::abi::Status;

use crate::program::Language;

/// What a campaign runs.
#[derive(Debug, Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the command line writes its fields"
)]
pub struct Plan {
    /// The programs that are drawn.
    pub seeds: Range<u64>,
    /// The language that makes calls on a held stream.
    pub language: Language,
    /// What is made to fail in random programs.
    pub faults: Faults,
    /// How long trials begin; making findings small does not count.
    pub searching: Option<Duration>,
    /// Where among all cases a kind begins: searches that begin elsewhere try others first.
    pub begin: u64,
    /// Which of how many parts, each of which has cases of all sorts.
    pub part: (usize, usize),
    /// Only cases with this in their names, for instance `seed 7 queues 2 status PANIC`.
    pub only: Option<String>,
    /// The longest time for making one finding small.
    pub shrinking: Duration,
    /// Where files go that replay findings.
    pub folder: PathBuf,
}

impl Plan {
    /// How many programs are drawn.
    #[must_use]
    pub const fn programs(&self) -> u64 {
        self.seeds.end.saturating_sub(self.seeds.start)
    }
}

/// What is made to fail in random programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what the command line can say")]
pub enum Faults {
    /// Each program runs without faults, and once with each status.
    All,
    /// One status; [`Status::OK`] stands for none.
    Only(Status),
}

impl Faults {
    /// `all`, `none`, or the name of a status.
    ///
    /// # Errors
    /// Another word, with all that are known.
    pub fn of(word: &str) -> Result<Self, String> {
        let known = || Status::ALL.iter().filter(|(status, _)| !status.is_ok());
        match word {
            "all" => Ok(Self::All),
            "none" => Ok(Self::Only(Status::OK)),
            word => known()
                .find(|(_, name)| *name == word)
                .map(|(status, _)| Self::Only(*status))
                .ok_or_else(|| {
                    let names: Vec<&str> = known().map(|(_, name)| *name).collect();
                    format!(
                        "unknown faults {word}: it is all, none, or a status: {}",
                        names.join(", ")
                    )
                }),
        }
    }

    /// The statuses with which each program runs; [`Status::OK`] is a run without faults.
    #[must_use]
    pub fn statuses(self) -> Vec<Status> {
        match self {
            Self::All => Status::ALL.iter().map(|(status, _)| *status).collect(),
            Self::Only(status) => vec![status],
        }
    }
}
