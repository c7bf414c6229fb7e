//! What `conform` prints for people: each case as it ends, since one may take a minute and the next may
//! never come.

use crossdock_conformance::{CaseReport, Outcome, Report};

use crate::{command::conform::junit::Junit, failure::Failure, screen};

/// What was printed so far, and the file beside it.
pub(super) struct Shown {
    pub(super) junit: Junit,
    is_on: bool,
    /// Whether cases that were skipped are listed.
    verbose: bool,
    /// How many cases of each report.
    cases: Vec<usize>,
    /// The report that is being printed.
    current: Option<usize>,
}

impl Shown {
    pub(super) const fn new(is_on: bool, verbose: bool, junit: Junit) -> Self {
        Self {
            junit,
            is_on,
            verbose,
            cases: Vec::new(),
            current: None,
        }
    }

    /// Prints what a report has that was not printed yet; it is the one with this index.
    pub(super) fn show(&mut self, at: usize, report: &Report) -> Result<(), Failure> {
        let is_new = at >= self.cases.len();
        if is_new {
            self.cases.resize(at + 1, 0);
        }
        let Some(printed) = self.cases.get_mut(at).filter(|_| self.is_on) else {
            return Ok(());
        };
        let cases = report.cases.get(*printed..).unwrap_or_default();
        if is_new || (!cases.is_empty() && self.current != Some(at)) {
            self.current = Some(at);
            screen::result(format!("{}\n", report.heading()))?;
        }
        for case in cases {
            *printed += 1;
            let skipped = matches!(case.outcome, Outcome::Skipped(_));
            if skipped && !self.verbose && !report.is_absent() {
                continue;
            }
            screen::result(format!("{case}\n"))?;
        }
        Ok(())
    }

    /// The same for all reports.
    pub(super) fn show_all(&mut self, reports: &[Report]) -> Result<(), Failure> {
        let mut reports = reports.iter().enumerate();
        reports.try_for_each(|(at, report)| self.show(at, report))
    }

    /// Prints what is left, the failures again, which may be far above, and of each device which cases were not
    /// asked and how many passed.
    pub(super) fn finish(&mut self, reports: &[Report]) -> Result<(), Failure> {
        self.show_all(reports)?;
        // Where nothing but failures was printed, they stand right above.
        let is_far = |report: &&Report| report.failures().count() < report.cases.len();
        let failed = reports.iter().filter(|report| !report.passed());
        for report in failed.filter(is_far).filter(|_| self.is_on) {
            screen::result(format!("\nfailed on {}\n", report.heading()))?;
            for case in causes_first(report) {
                // The contract stands above.
                let shown = case.to_string();
                let line = shown.split_once("\n           contract: ");
                screen::result(format!("{}\n", line.map_or(&*shown, |(line, _)| line)))?;
            }
            screen::result("\n".to_owned())?;
        }
        for report in reports.iter().filter(|_| self.is_on) {
            let of = match reports {
                [_only] => String::new(),
                _ => format!("device {}: ", report.device),
            };
            for remark in report.remarks() {
                screen::result(format!("{of}{remark}\n"))?;
            }
            screen::result(format!("{of}{}\n", report.summary()))?;
        }
        Ok(())
    }
}

/// The failures, those first that make others fail.
fn causes_first(report: &Report) -> Vec<&CaseReport> {
    let mut failures: Vec<_> = report.failures().collect();
    failures.sort_by_key(|case| {
        let cause = CAUSES.iter().position(|cause| *cause == case.name);
        cause.unwrap_or(CAUSES.len())
    });
    failures
}

/// What other cases rest on, nearly all of them on the first ones.
const CAUSES: [&str; 5] = [
    "memory_comes_back_after_free",
    "a_query_of_the_base_names_the_allocation",
    "bytes_come_back_as_they_went",
    "a_copy_changes_its_range_only",
    "a_recorded_event_happens",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_a_case() {
        for cause in CAUSES {
            let mut cases = crossdock_conformance::cases().iter();
            assert!(cases.any(|case| case.name == cause), "{cause}");
        }
    }
}
