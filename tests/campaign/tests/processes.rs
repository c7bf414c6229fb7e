//! Which trials share a process, seen by a program in the campaign's place that tells its process.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crossdock_campaign::child::Trials;
use crossdock_campaign::program::{Case, Ending, Engine, Language};
use crossdock_campaign::verdict::Verdict;

/// The processes that make one trial of each of these engines, on these devices.
fn processes(devices: &[&str], engines: &[(&str, u32)]) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("serve");
    let serves = "#!/bin/sh\nwhile read -r line; do\n\
                  echo '[{\"Passed\":{\"refused\":'$$',\"spent\":false}},null]'\ndone\n";
    std::fs::write(&program, serves).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut trials = Trials::new(program, PathBuf::new(), Duration::from_secs(10));
    let trial = |(policy, queues): &(&str, u32)| {
        let case = Case {
            name: "a trial".to_owned(),
            language: Language::Rust,
            devices: devices.iter().map(|name| (*name).to_owned()).collect(),
            fresh: false,
            runtimes: 1,
            staging: 65_536,
            fault: None,
            ending: Ending::Return,
            engine: Engine {
                policy: (*policy).to_owned(),
                seed: 1,
                queues: *queues,
                fault: None,
            },
            programs: Vec::new(),
        };
        match trials.verdict(&case) {
            Verdict::Passed { refused, .. } => refused,
            Verdict::Found(finding) => unreachable!("{finding:?}"),
        }
    };
    engines.iter().map(trial).collect()
}

#[test]
fn a_simulated_driver_is_of_the_case_that_runs_over_it() {
    let engines = [("lazy", 1), ("lazy", 1), ("lazy", 2), ("seeded", 2)];
    let [first, again, queues, policy] = processes(&["cpu", "cuda:1"], &engines)[..] else {
        unreachable!("four trials");
    };
    assert_eq!(first, again);
    assert!(first != queues && queues != policy && policy != first);
    let [first, others @ ..] = &processes(&["cpu", "asynchronous"], &engines)[..] else {
        unreachable!("four trials");
    };
    assert!(others.iter().all(|other| other == first));
}
