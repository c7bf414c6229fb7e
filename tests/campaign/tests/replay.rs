//! A program does the same each time it runs, where simulated devices alone do the work and threads
//! take turns.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::PathBuf;
use std::time::Duration;

use crossdock_campaign::child::Trials;
use crossdock_campaign::kinds::Kind;
use crossdock_campaign::plan::{Faults, Plan};
use crossdock_campaign::program::{Case, Language, WAIT_HOOKS};
use crossdock_campaign::world::present;
use crossdock_e2e::report;

const LIMIT: Duration = Duration::from_secs(10);
const DEVICES: [&str; 2] = ["asynchronous", "asynchronous:1"];

/// How many of the first programs of a sort that are said to be exact did the same `times` times.
fn equal(faults: &str, programs: usize, times: usize, is_it: fn(&Case) -> bool) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let devices = present(&DEVICES, folder.path());
    let program = PathBuf::from(env!("CARGO_BIN_EXE_campaign"));
    let mut trials = Trials::new(program, folder.path().to_owned(), LIMIT);
    let plan = Plan {
        seeds: 0..400,
        language: Language::Rust,
        faults: Faults::of(faults).unwrap(),
        searching: None,
        begin: 0,
        only: None,
        part: (1, 1),
        shrinking: Duration::ZERO,
        folder: folder.path().join("found"),
    };
    let count = Kind::Random.count(&devices, &plan);
    // Of each number of hardware queues.
    let cases = (0..count).map(|number| Kind::Random.case(&devices, &plan, number * 37 % count));
    let cases = cases.map(without_faults_of_waits);
    let cases = cases.filter(|case| is_it(case) && case.why_inexact().is_none());
    let (mut equal, mut all) = (0, 0);
    for case in cases.take(programs) {
        let mut run = || (trials.alone(&case), trials.trace());
        let first = run();
        assert!(first.1.is_some(), "{case:?}: {first:?}");
        let others: Vec<_> = (1..times).map(|_| run()).collect();
        let differs = others.iter().find(|other| **other != first);
        if let Some(other) = differs {
            report(&format!("{}: {first:?}, then {other:?}", case.name));
        }
        equal += usize::from(differs.is_none());
        all += 1;
    }
    (equal, all)
}

/// The same case, in which the runtime never has to poll for the end of work.
fn without_faults_of_waits(mut case: Case) -> Case {
    if let Some(fault) = &mut case.fault {
        let is_of_wait = |rule: &&str| {
            WAIT_HOOKS
                .iter()
                .any(|hook| rule.starts_with(&format!("{hook}:")))
        };
        let rules: Vec<_> = fault.split(',').filter(|rule| !is_of_wait(rule)).collect();
        *fault = rules.join(",");
    }
    case
}

fn has_one_thread(case: &Case) -> bool {
    matches!(case.programs.as_slice(), [only] if only.iter().all(|op| op.thread == 0))
}

fn has_threads(case: &Case) -> bool {
    case.programs.len() == 1 && !has_one_thread(case)
}

#[test]
fn programs_of_one_thread_are_replayed_exactly() {
    assert_eq!(equal("none", 6, 3, has_one_thread), (6, 6));
}

#[test]
fn programs_of_several_threads_are_replayed_exactly() {
    assert_eq!(equal("none", 6, 3, has_threads), (6, 6));
}

#[test]
fn programs_beside_each_other_are_replayed_exactly() {
    assert_eq!(equal("none", 2, 3, Case::is_crowd), (2, 2));
}

#[test]
fn programs_with_faults_are_replayed_exactly() {
    assert_eq!(equal("OOM_DEVICE", 4, 3, has_threads), (4, 4));
}

/// How many of many programs, for the figures in `CONTRIBUTING.md`.
#[test]
#[ignore = "takes minutes"]
fn many_programs_are_replayed_exactly() {
    type Sort = (&'static str, &'static str, fn(&Case) -> bool);
    let sorts: [Sort; 5] = [
        ("one thread", "none", has_one_thread),
        ("several threads", "none", has_threads),
        ("two runtimes, eight threads", "none", Case::is_crowd),
        ("one thread, faults", "all", has_one_thread),
        ("several threads, faults", "all", has_threads),
    ];
    let mut differ = 0;
    for (name, faults, is_it) in sorts {
        let (equal, all) = equal(faults, 60, 5, is_it);
        report(&format!("{name}: {equal} of {all} did the same 5 times"));
        differ += all - equal;
    }
    assert_eq!(differ, 0);
}
