//! The suite on devices that are never done at once, whichever policy runs their work and however few queues.
//!
//! Each run is a process of its own: the plugin reads its choices from the environment.
#![expect(
    unsafe_code,
    reason = "reads the table of the plugin that is linked in, and starts a timer"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

use std::collections::BTreeSet;
use std::process::Command;

use crossdock::{Hooks, Layer, Table};
use crossdock_conformance::{Level, Outcome, Subject, selected};
use crossdock_plugin_asynchronous::{CONTROL, Controlled, table};

/// Whether the child's plugin is behind the validating layer.
const VALIDATED: &str = "CROSSDOCK_TEST_VALIDATED";

/// A child that takes longer hangs, and ends by SIGALRM.
const LIMIT_SECONDS: u32 = 60;

/// Each policy with streams that share one queue, two or eight, plain or validated: which of these is
/// the seed's choice, and six seeds choose all.
fn choices(seed: usize) -> Vec<(String, bool)> {
    let ways = [1, 2, 8].map(|queues| [(queues, false), (queues, true)]);
    let ways = ways.concat();
    let policies = ["threads", "seeded", "lazy"].into_iter().enumerate();
    let choice = policies.filter_map(|(at, policy)| {
        let (queues, is_validated) = ways.get((seed + 2 * at) % ways.len())?;
        let sim = format!("policy={policy};queues={queues};seed={}", seed + 1);
        Some((sim, *is_validated))
    });
    choice.collect()
}

/// Runs [`one_run`] in a process with these choices.
fn passes(sim: &str, is_validated: bool) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "one_run", "--nocapture"])
        .env("CROSSDOCK_ASYNCHRONOUS", sim)
        .env(VALIDATED, if is_validated { "1" } else { "0" })
        .output()
        .unwrap();
    let text = [child.stdout, child.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        child.status.success() && text.contains("1 passed"),
        "{sim}, validated: {is_validated}: {}\n{text}",
        child.status
    );
}

#[test]
#[ignore = "one run of the other tests of this file, which start it as a process of its own"]
fn one_run() {
    // SAFETY: it only starts a timer.
    unsafe { libc::alarm(LIMIT_SECONDS) };
    // SAFETY: the table is a constant of this program.
    let table = unsafe { Table::read(table()) }.unwrap();
    let mut hooks = Hooks::new("asynchronous".to_owned(), table);
    hooks.open().unwrap();
    if std::env::var(VALIDATED).is_ok_and(|value| value == "1") {
        hooks.wrap(&[Layer::Validate]);
    }
    let count = hooks.device_count().unwrap();
    assert_eq!(count, 2);
    for device in 0..count {
        let subject = Subject::new(&hooks, device).unwrap();
        for case in selected(Level::Full, None) {
            // A case that hangs is the last one that is named.
            println!("device {device}: {}", case.name);
            let outcome = case.run(&subject);
            assert!(!matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        }
    }
    // SAFETY: the plugin answered, and is open until the end of this test.
    let control = unsafe { Controlled::new(hooks.device_attribute(0, CONTROL).unwrap()) };
    let control = control.unwrap();
    assert_eq!(control.take_reports(), [""; 0]);
    assert_eq!(control.leaks(), [""; 0]);
    if let Some(live) = hooks.live_objects() {
        assert_eq!(live.count(), 0, "{live}");
    }
    hooks.close().unwrap();
}

#[test]
fn it_passes_under_each_policy_with_one_queue_with_two_and_with_eight() {
    for (sim, is_validated) in choices(1) {
        passes(&sim, is_validated);
    }
}

#[test]
#[ignore = "two minutes: every policy with every number of queues, plain and validated"]
fn it_passes_under_every_policy_with_every_number_of_queues() {
    let every: BTreeSet<_> = (0..6).flat_map(choices).collect();
    assert_eq!(every.len(), 18);
    for (sim, is_validated) in every {
        passes(&sim, is_validated);
    }
}
