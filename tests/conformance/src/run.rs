//! Runs the cases of a level, one after another.

use std::time::Instant;

use crate::{CaseReport, Level, Report, Subject, cases};

/// Runs every case up to `level` whose name contains `filter`, in the order of [`cases`].
#[must_use]
pub fn run(subject: &Subject<'_>, level: Level, filter: Option<&str>) -> Report {
    let mut report = Report::new(subject, level);
    for case in cases() {
        let wanted = filter.is_none_or(|part| case.name.contains(part));
        if !wanted || case.level > level {
            continue;
        }
        log::debug!(target: "crossdock::conform", "{}", case.name);
        let start = Instant::now();
        let outcome = case.run(subject);
        report.add(CaseReport::new(case, outcome, start.elapsed()));
    }
    report
}
