//! One sentence of the contract with the check of it.

use crossdock::Error;
use crossdock_sdk::abi::Status;
use serde::{Deserialize, Serialize};

use crate::{Ending, Subject};

/// A check of one sentence of the plugin contract.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// What holds, a sentence in snake case.
    pub name: &'static str,
    /// The sentence of the contract that is checked, word by word as it stands in the headers for C; `…`
    /// where words are left out.
    pub contract: &'static str,
    /// From which level on it belongs to the suite.
    pub level: Level,
    /// How the process ends that is made for it; none for one that runs beside others.
    pub ending: Option<Ending>,
    /// Whether it is asked where a hook panicked before, after which the host calls none.
    is_behind_a_panic: bool,
    /// Whether it is checked once more on streams whose native handles are known.
    is_about_streams: bool,
    check: fn(&Subject<'_>) -> Verdict,
}

impl Case {
    pub(crate) const fn core(
        name: &'static str,
        contract: &'static str,
        check: fn(&Subject<'_>) -> Verdict,
    ) -> Self {
        Self {
            name,
            contract,
            level: Level::Core,
            ending: None,
            is_behind_a_panic: false,
            is_about_streams: false,
            check,
        }
    }

    pub(crate) const fn full(
        name: &'static str,
        contract: &'static str,
        check: fn(&Subject<'_>) -> Verdict,
    ) -> Self {
        Self {
            name,
            contract,
            level: Level::Full,
            ending: None,
            is_behind_a_panic: false,
            is_about_streams: false,
            check,
        }
    }

    /// The same in a process of its own, which ends like this.
    pub(crate) const fn of_a_process(mut self, ending: Ending) -> Self {
        self.ending = Some(ending);
        self
    }

    /// The same also where a hook panicked before.
    pub(crate) const fn behind_a_panic(mut self) -> Self {
        self.is_behind_a_panic = true;
        self
    }

    /// The same, also on streams whose native handles are known: a plugin has to assume that other code uses those.
    pub(crate) const fn about_streams(mut self) -> Self {
        self.is_about_streams = true;
        self
    }

    /// Runs the check on a device. One with an [`ending`](Self::ending) is skipped: [`Ending::run`] runs it.
    /// Behind a hook that panicked nearly all are, of which [`Report::remarks`](crate::Report::remarks) tells.
    #[must_use]
    pub fn run(&self, subject: &Subject<'_>) -> Outcome {
        if subject.hooks().is_quarantined() && !self.is_behind_a_panic {
            return Outcome::Skipped(AFTER_PANIC.to_owned());
        }
        (self.check)(subject)
            .and_then(|()| self.check_shown(subject))
            .into()
    }

    /// The check on streams whose native handles are known, if it is about streams and they have such handles.
    fn check_shown(&self, subject: &Subject<'_>) -> Verdict {
        let shown = self.is_about_streams.then(|| subject.showing_streams());
        let Some(subject) = shown.flatten() else {
            return Ok(());
        };
        match (self.check)(&subject) {
            Err(Unmet::Failed(what)) => failed(format!("after `stream_native`: {what}")),
            Err(Unmet::Skipped(_)) | Ok(()) => Ok(()),
        }
    }
}

/// Why nothing is asked after a panic: each hook would answer that of it.
pub(crate) const AFTER_PANIC: &str = "a hook panicked before, after which none is called";

/// How much of the suite is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// What every plugin has to do to be safe to load.
    Core,
    /// Everything: also what only some plugins can tell, many threads, and the end of a plugin.
    Full,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The sentence holds.
    Passed,
    /// The plugin does not offer what the sentence is about; the text says what.
    Skipped(String),
    /// The sentence does not hold; the text says what was seen.
    Failed(String),
}

/// Why a check did not end well. `?` on a hook's answer makes a failure of it.
#[derive(Debug)]
pub(crate) enum Unmet {
    Skipped(String),
    Failed(String),
}

/// What a check answers.
pub(crate) type Verdict = Result<(), Unmet>;

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Ok(()) => Self::Passed,
            Err(Unmet::Skipped(why)) => Self::Skipped(why),
            Err(Unmet::Failed(what)) => Self::Failed(what),
        }
    }
}

impl From<Error> for Unmet {
    fn from(error: Error) -> Self {
        Self::Failed(format!("{error}: {}", error.why()))
    }
}

/// A failure with its text.
pub(crate) fn failed<T>(what: impl Into<String>) -> Result<T, Unmet> {
    Err(Unmet::Failed(what.into()))
}

/// A skip with its reason.
pub(crate) fn skipped<T>(why: impl Into<String>) -> Result<T, Unmet> {
    Err(Unmet::Skipped(why.into()))
}

/// Demands that a hook answered one of `allowed`, which may hold [`Status::OK`].
pub(crate) fn answers<T>(what: &str, answer: &Result<T, Error>, allowed: &[Status]) -> Verdict {
    let status = status_of(answer);
    if allowed.contains(&status) {
        return Ok(());
    }
    let wanted: Vec<_> = allowed.iter().map(ToString::to_string).collect();
    let why = answer
        .as_ref()
        .err()
        .map(|error| format!(": {}", error.why()))
        .unwrap_or_default();
    failed(format!(
        "{what} answered {status} and not {}{why}",
        wanted.join(" or ")
    ))
}

/// The status of an answer.
pub(crate) fn status_of<T>(answer: &Result<T, Error>) -> Status {
    match answer {
        Ok(_) => Status::OK,
        Err(error) => error.status().unwrap_or(Status::ABI),
    }
}

/// Whether a hook declined these arguments.
pub(crate) fn is_unsupported<T>(answer: &Result<T, Error>) -> bool {
    status_of(answer) == Status::UNSUPPORTED
}

/// Demands that two runs of bytes are equal, and says where they differ.
pub(crate) fn same_bytes(what: &str, found: &[u8], wanted: &[u8]) -> Verdict {
    if found.len() != wanted.len() {
        return failed(format!(
            "{what}: {} bytes and not {}",
            found.len(),
            wanted.len()
        ));
    }
    let differs = found
        .iter()
        .zip(wanted)
        .enumerate()
        .find(|(_, (found, wanted))| found != wanted);
    match differs {
        None => Ok(()),
        Some((place, (found, wanted))) => failed(format!(
            "{what}: byte {place} is {found:#04x} and not {wanted:#04x}"
        )),
    }
}

/// Ends a check with a failure unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return $crate::case::failed(format!($($text)+));
        }
    };
}
pub(crate) use ensure;
