//! What came out of a run.

use std::fmt;
use std::time::Duration;

use crossdock_sdk::abi::Capabilities;
use serde::Serialize;

use crate::case::AFTER_PANIC;
use crate::subject::lacks;
use crate::{Case, Level, Outcome, Subject, cases};

/// The outcome of every case of a run on one device.
///
/// `Display` is a table for people; it serialises for machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The plugin's name.
    pub plugin: String,
    /// The device's index in its plugin.
    pub device: u32,
    /// The device's name.
    pub device_name: String,
    /// How much of the suite was run.
    pub level: Level,
    /// The cases, in the order of the suite.
    pub cases: Vec<CaseReport>,
}

/// How one case ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// What holds, a sentence in snake case.
    pub name: &'static str,
    /// The sentence of the contract that is checked.
    pub contract: &'static str,
    /// From which level on it belongs to the suite.
    pub level: Level,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
}

impl Report {
    /// A report without a case.
    #[must_use]
    pub const fn new(plugin: String, device: u32, device_name: String, level: Level) -> Self {
        Self {
            plugin,
            device,
            device_name,
            level,
            cases: Vec::new(),
        }
    }

    /// A report on a subject without a case.
    #[must_use]
    pub fn of(subject: &Subject<'_>, level: Level) -> Self {
        let name = subject.info().name;
        let text: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
        let device_name = String::from_utf8_lossy(&text).into_owned();
        let plugin = subject.hooks().name().to_owned();
        Self::new(plugin, subject.device(), device_name, level)
    }

    /// A report on a plugin whose devices are absent: one case, skipped, with what the plugin looked for.
    #[must_use]
    pub fn absent(plugin: String, level: Level, detail: String) -> Self {
        let mut report = Self::new(plugin, 0, "absent".to_owned(), level);
        let (contract, outcome) = if detail.trim().is_empty() {
            let why = "the probe says ABSENT, and its `detail` is empty";
            (LOOKED_FOR, Outcome::Failed(why.to_owned()))
        } else {
            let contract = "Hardware that is absent is no failure.";
            (contract, Outcome::Skipped(detail))
        };
        report.cases.push(CaseReport {
            name: ABSENT,
            contract,
            level: Level::Core,
            outcome,
            seconds: 0.0,
        });
        report
    }

    /// Whether it is such a report.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.cases.iter().any(|case| case.name == ABSENT)
    }

    /// Whether no case failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases
            .iter()
            .filter(|case| matches!(case.outcome, Outcome::Failed(_)))
    }

    /// Adds a failure of what is around the cases of the suite: how a plugin opens and closes, and what whoever
    /// runs them asks for beside them.
    pub fn fail(&mut self, name: &'static str, rule: &'static str, why: String, time: Duration) {
        self.cases.push(CaseReport {
            name,
            contract: rule,
            level: Level::Core,
            outcome: Outcome::Failed(why),
            seconds: time.as_secs_f64(),
        });
    }

    fn count(&self, matches: impl Fn(&Outcome) -> bool) -> usize {
        self.cases
            .iter()
            .filter(|case| matches(&case.outcome))
            .count()
    }

    /// How many cases passed, were skipped, and failed.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (
            self.count(|outcome| matches!(outcome, Outcome::Passed)),
            self.count(|outcome| matches!(outcome, Outcome::Skipped(_))),
            self.count(|outcome| matches!(outcome, Outcome::Failed(_))),
        )
    }
}

impl CaseReport {
    /// How a case ended, and how long it took.
    #[must_use]
    pub const fn new(case: &Case, outcome: Outcome, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        Self {
            name: case.name,
            contract: case.contract,
            level: case.level,
            outcome,
            seconds,
        }
    }
}

/// The parts of the table are apart too, for who shows each case as it ends.
impl Report {
    /// The first line of the table.
    #[must_use]
    pub fn heading(&self) -> String {
        format!(
            "plugin `{}`, device {} ({})",
            self.plugin, self.device, self.device_name
        )
    }

    /// The last line of the table.
    #[must_use]
    pub fn summary(&self) -> String {
        let (passed, skipped, failed) = self.counts();
        let first = self.failures().any(|case| case.name == FIRST);
        let first = if first && failed > 1 {
            format!(": mend `{FIRST}` first, on which most of the others rest")
        } else {
            String::new()
        };
        format!("{passed} passed, {skipped} skipped, {failed} failed{first}")
    }
}

/// What many cases were not asked for.
impl Report {
    /// A line for each reason that left out cases which the plugin may be meant to pass.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let panicked = self.panicked();
        let reasons = [
            // Those that need it need streams before.
            (
                lacks(Capabilities::ASYNC_COPY),
                "the plugin has streams and does not claim ASYNC_COPY",
            ),
            (AFTER_PANIC.to_owned(), panicked.as_str()),
        ];
        let remarks = reasons.iter().filter_map(|(why, told)| {
            let count = self.count(|outcome| matches!(outcome, Outcome::Skipped(w) if w == why));
            let cases = if count == 1 { "case was" } else { "cases were" };
            (count > 0).then(|| format!("{told}: {count} {cases} not asked"))
        });
        remarks.collect()
    }

    /// Which case the panic was in that left out others.
    fn panicked(&self) -> String {
        let is_left_out = |case: &CaseReport| matches!(&case.outcome, Outcome::Skipped(why) if why == AFTER_PANIC);
        let asked = self.cases.iter().take_while(|case| !is_left_out(case));
        match asked.last() {
            Some(case) => format!("a hook panicked in `{}`", case.name),
            None => "a hook panicked on another device".to_owned(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.heading())?;
        for case in &self.cases {
            writeln!(f, "{case}")?;
        }
        for remark in self.remarks() {
            writeln!(f, "{remark}")?;
        }
        write!(f, "{}", self.summary())
    }
}

/// Its lines in a table: the second one is of a case that failed.
impl fmt::Display for CaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, why) = match &self.outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
            Outcome::Failed(what) => ("FAILED", what.as_str()),
        };
        let width = longest_name();
        let line = format!(
            "  {word:<7}  {name:<width$}  {milliseconds:>9.3} ms  {why}",
            name = self.name,
            milliseconds = self.seconds * 1e3,
        );
        write!(f, "{}", line.trim_end())?;
        if matches!(self.outcome, Outcome::Failed(_)) {
            write!(f, "\n           contract: {}", self.contract)?;
        }
        Ok(())
    }
}

/// The case without which hardly another one can hold.
const FIRST: &str = "bytes_come_back_as_they_went";

/// What users need to know of a driver that is absent.
const LOOKED_FOR: &str =
    "What was looked for and where (absent), or why it does not work (broken).";

/// No case of the suite has this name.
const ABSENT: &str = "a_device_is_here";

/// The width of the names in a table: nobody knows yet which cases come.
fn longest_name() -> usize {
    let names = cases().iter().map(|case| case.name.len());
    names.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_behind_the_others_is_named() {
        let mut report = Report::new("mine".to_owned(), 0, "Mine".to_owned(), Level::Core);
        let at = cases().iter().position(|case| case.name == FIRST);
        let chosen = at
            .into_iter()
            .flat_map(|at| cases().iter().skip(at).take(3));
        for case in chosen {
            let outcome = Outcome::Failed("not so".to_owned());
            report
                .cases
                .push(CaseReport::new(case, outcome, Duration::ZERO));
        }
        let told = report.summary();
        assert!(
            told.starts_with("0 passed, 0 skipped, 3 failed: "),
            "{told}"
        );
        assert!(told.contains(FIRST), "{told}");
        report.cases.remove(0);
        assert_eq!(report.summary(), "0 passed, 0 skipped, 2 failed");
    }
}
