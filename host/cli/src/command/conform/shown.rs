//! What `conform` prints for people: each case as it ends, since one may take a minute and the next may
//! never come.

use crossdock_conformance::{Outcome, Report};

use crate::{failure::Failure, screen};

/// What was printed so far.
pub(super) struct Shown {
    is_on: bool,
    /// Whether cases that were skipped are listed.
    verbose: bool,
    /// How many cases of each report.
    cases: Vec<usize>,
    /// The report that is being printed.
    current: Option<usize>,
}

impl Shown {
    pub(super) const fn new(is_on: bool, verbose: bool) -> Self {
        Self {
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

    /// Prints what is left, the failures again, which may be far above, and how many cases of each device passed.
    pub(super) fn finish(&mut self, reports: &[Report]) -> Result<(), Failure> {
        self.show_all(reports)?;
        let failed = reports.iter().filter(|report| !report.passed());
        for report in failed.filter(|_| self.is_on) {
            screen::result(format!("\nfailed on {}\n", report.heading()))?;
            for case in report.failures() {
                screen::result(format!("{case}\n"))?;
            }
            screen::result("\n".to_owned())?;
        }
        for report in reports.iter().filter(|_| self.is_on) {
            let of = match reports {
                [_only] => String::new(),
                _ => format!("device {}: ", report.device),
            };
            screen::result(format!("{of}{}\n", report.summary()))?;
        }
        Ok(())
    }
}
