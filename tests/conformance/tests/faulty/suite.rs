//! The suite on a table with a fault, and what a fault is made of.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

use crossdock_conformance::{Level, Report, Subject, run};
use crossdock_sdk::abi::PluginTable;

use super::faulty::open;

/// Runs one case on a table with a fault.
pub(crate) fn report_of_case(case: &str, change: impl FnOnce(&mut PluginTable)) -> Report {
    let mut hooks = open(change);
    let subject = Subject::new(&hooks, 0).unwrap();
    let report = run(&subject, Level::Full, Some(case));
    hooks.close().unwrap();
    assert_eq!(report.cases.len(), 1, "{report}");
    report
}

/// Demands that a case failed, and that no report is a pass because of it.
pub(crate) fn finds(report: &Report, case: &str) {
    assert!(!report.passed(), "{report}");
    assert!(
        report.failures().any(|failure| failure.name == case),
        "{case}:\n{report}"
    );
}
