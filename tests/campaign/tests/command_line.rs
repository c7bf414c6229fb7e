//! What the command line says is what runs.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use crossdock_campaign::kinds::Kind;
use crossdock_campaign::plan::{Faults, Plan};
use crossdock_campaign::program::Language;

/// What the command says, and its exit code.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_campaign"))
        .args(arguments)
        .output()
        .unwrap();
    let mut said = String::from_utf8(output.stderr).unwrap();
    said += &String::from_utf8(output.stdout).unwrap();
    (output.status.code(), said)
}

#[test]
fn unknown_faults_are_refused_with_those_that_are_known() {
    let (code, said) = said(&["--kind", "b", "--seeds", "0", "--faults", "VENDR"]);
    assert_eq!(code, Some(2), "{said}");
    for word in ["VENDR", "all, none", "OOM_DEVICE", "VENDOR"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn unknown_languages_are_refused_with_those_that_are_known() {
    let (code, said) = said(&["--kind", "a", "--language", "cobol"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("rust, c or python"), "{said}");
}

#[test]
fn help_names_the_options_and_where_they_are_explained() {
    let (code, said) = said(&["--help"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("--minutes") && said.contains("CONTRIBUTING.md"));
}

#[test]
fn a_search_begins_where_it_is_told_to() {
    let devices = ["--kind", "d", "--devices", "cpu", "--minutes", "0"];
    let begun = |more: &[&str]| {
        let (code, said) = said(&[&devices, more].concat());
        assert_eq!(code, Some(0), "{said}");
        let began = said.lines().find(|line| line.contains("began at case"));
        began.unwrap().to_owned()
    };
    assert!(begun(&["--begin", "41"]).contains("case 41:"));
    assert!(!begun(&[]).contains("case 0:"));
}

#[test]
fn unknown_kinds_are_refused_with_those_that_are_known() {
    let (code, said) = said(&["--kind", "z"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a kind is a, b, c, d, e or f"), "{said}");
}

#[test]
fn habits_need_the_package_and_say_how_it_is_made() {
    let output = Command::new(env!("CARGO_BIN_EXE_campaign"))
        .args(["--kind", "e", "--seeds", "1"])
        .env_remove("PYTHONPATH")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("scripts/python-package makes one"), "{said}");
}

/// What the campaign of habits is given: a program in Python's place tells it.
fn given(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    let tells = "#!/bin/sh\necho \"options: $*\"\necho \"plugins: $CROSSDOCK_PLUGINS\"\n\
                 echo 'e habits of Python 1 1 0 0 0.1'\n";
    std::fs::write(&python, tells).unwrap();
    std::fs::set_permissions(&python, Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(folder.path().join("crossdock")).unwrap();
    std::fs::write(folder.path().join("crossdock/__init__.py"), "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_campaign"))
        .args(arguments)
        .env("PYTHONPATH", folder.path())
        .env("CROSSDOCK_PEERS_PYTHON", &python)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

#[test]
fn habits_are_given_the_devices_that_were_chosen() {
    let chosen = ["--kind", "e", "--seeds", "1", "--devices"];
    let with = |devices| given(&[&chosen[..], &[devices]].concat());
    assert!(given(&chosen[..4]).contains("plugins: cpu,opencl,asynchronous\n"));
    assert!(with("asynchronous:1").contains("plugins: cpu,asynchronous\n"));
    // Python has the CPU in any case, and no other of these.
    assert!(with("cpu,ext_dev").contains("plugins: cpu\n"));
    let replayed = given(&["--replay", "a.py", "--devices", "cpu"]);
    assert!(replayed.contains("plugins: cpu\n"), "{replayed}");
}

#[test]
fn habits_are_given_the_time_for_making_a_script_small() {
    let found = given(&["--kind", "e", "--seeds", "1", "--shrinking", "7"]);
    assert!(found.contains("--shrinking 7"), "{found}");
    let small = given(&["--shrink", "a.py", "--shrinking", "7"]);
    assert!(small.contains("--shrinking 7"), "{small}");
}

#[test]
fn one_seed_is_one_of_a_kind_that_has_seeds() {
    let (code, said) = said(&["--kind", "d", "--seed", "3"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("only the kinds b, c and e have seeds"),
        "{said}"
    );
}

#[test]
fn one_seed_with_one_status_runs_over_each_number_of_queues() {
    let chosen = ["--kind", "b", "--seed", "3", "--faults", "OOM_HOST"];
    let (code, said) = said(&[&chosen[..], &["--devices", "cpu"]].concat());
    assert_eq!(code, Some(0), "{said}");
    // The seed is one of a crowd.
    let counted = "K=1: 1, K=2: 1, K=8: 1; two runtimes, four threads each: 3";
    assert!(said.contains(counted), "{said}");
}

#[test]
fn one_case_of_a_seed_and_a_status_is_chosen_by_its_name() {
    let chosen = ["--kind", "b", "--seed", "3", "--faults", "OOM_HOST"];
    let named = |name| [&chosen[..], &["--devices", "cpu", "--only", name]].concat();
    let (code, one) = said(&named("queues 2"));
    assert_eq!(code, Some(0), "{one}");
    let counted = |line: &str| line.starts_with("b random programs") && line.contains("  1  ");
    assert!(one.lines().any(counted), "{one}");
    let (code, none) = said(&named("status PANIC"));
    assert_eq!(code, Some(2), "{none}");
    assert!(none.contains("no case that was chosen"), "{none}");
}

#[test]
fn each_part_has_programs_of_all_sorts() {
    let (code, said) = said(&[
        "--kind",
        "b",
        "--seeds",
        "8",
        "--faults",
        "none",
        "--devices",
        "cpu",
        "--part",
        "2/3",
    ]);
    assert_eq!(code, Some(0), "{said}");
    // One seed in four is of a crowd.
    let counted = "K=1: 2, K=2: 3, K=8: 3; two runtimes, four threads each: 2";
    assert!(said.contains(counted), "{said}");
}

#[test]
fn each_seed_runs_with_each_status_over_each_number_of_queues() {
    let plan = Plan {
        seeds: 5..9,
        language: Language::Rust,
        faults: Faults::All,
        searching: None,
        begin: 0,
        only: None,
        part: (1, 1),
        shrinking: Duration::ZERO,
        folder: "found".into(),
    };
    let devices = ["cpu".to_owned()];
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let count = Kind::Random.count(&devices, &plan);
    for number in 0..count {
        let case = Kind::Random.case(&devices, &plan, number);
        assert!((5..9).contains(&case.engine.seed), "{case:?}");
        *names.entry(case.name).or_default() += 1;
    }
    assert_eq!(names.len() as u64, 4 * 3 * 23);
    assert!(names.values().all(|times| *times == 1), "{names:?}");
}
