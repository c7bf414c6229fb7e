//! Runs the cases of a level, one after another.

use std::time::Instant;

use crate::{Case, CaseReport, Level, Report, Subject, cases};

/// The cases up to `level` whose name contains `filter`, in the order of [`cases`].
pub fn selected(level: Level, filter: Option<&str>) -> impl Iterator<Item = &'static Case> {
    cases().iter().filter(move |case| {
        case.level <= level && filter.is_none_or(|part| case.name.contains(part))
    })
}

/// Runs every case up to `level` whose name contains `filter`, in the order of [`cases`].
#[must_use]
pub fn run(subject: &Subject<'_>, level: Level, filter: Option<&str>) -> Report {
    run_each(subject, level, filter, |_report| {})
}

/// The same, showing what there is of the report before the first case and whenever one has ended.
#[must_use]
pub fn run_each(
    subject: &Subject<'_>,
    level: Level,
    filter: Option<&str>,
    mut show: impl FnMut(&Report),
) -> Report {
    let mut report = Report::of(subject, level);
    show(&report);
    for case in selected(level, filter) {
        log::debug!(target: "crossdock::conform", "{}", case.name);
        let start = Instant::now();
        let outcome = case.run(subject);
        report
            .cases
            .push(CaseReport::new(case, outcome, start.elapsed()));
        show(&report);
    }
    report
}
