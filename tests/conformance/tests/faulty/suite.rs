//! The suite on a table with a fault, and what a fault is made of.
#![expect(unsafe_code, reason = "reads a group of the sound plugin")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

use crossdock_conformance::{Level, Report, Subject, run};
use crossdock_sdk::abi::{PluginTable, StreamHooks};

use super::faulty::{group, open, sound};

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

/// A table's change to streams with other hooks.
pub(crate) fn with_streams(change: impl FnOnce(&mut StreamHooks)) -> impl FnOnce(&mut PluginTable) {
    move |table| {
        // SAFETY: the sound plugin's group is a constant.
        let mut streams = unsafe { table.streams.as_ptr().read() };
        change(&mut streams);
        table.streams = group(streams);
    }
}

/// The sound plugin's streams.
pub(crate) fn sound_streams() -> StreamHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().streams.as_ptr().read() }
}
