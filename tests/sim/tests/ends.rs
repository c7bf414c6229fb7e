//! Programs that race and end in some way: what they reported is found, however that was.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by it, or says why it was skipped"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn with_sim() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/with-sim"));
    command.env_remove("CROSSDOCK_SIM");
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Builds a program of `tests/cuda`; `None` where `scripts/setup` could not fetch the header.
fn program(name: &str, folder: &Path) -> Option<PathBuf> {
    let Some(headers) = std::env::var_os("CROSSDOCK_CUDA_HEADER_DIR") else {
        println!("skipped: CROSSDOCK_CUDA_HEADER_DIR is not set; scripts/setup fetches the header");
        return None;
    };
    let made = with_sim().arg("--libraries").arg(folder).output().unwrap();
    assert!(made.status.success(), "{}", told(&made));
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=gnu11",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-rdynamic",
    ]);
    compiler.arg("-I").arg(headers);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cuda/{name}.c")));
    compiler.arg("-o").arg(&program);
    compiler.args(["-Wl,--no-as-needed", "-Wl,--copy-dt-needed-entries"]);
    let built = compiler.arg(folder.join("libcuda.so.1")).output().unwrap();
    assert!(built.status.success(), "{}", told(&built));
    Some(program)
}

/// How a program ended, what was said, and what it reported.
fn ran(policy: &str, program: &Path, way: &str) -> (Option<i32>, String, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = with_sim();
    command
        .args(["--policy", policy, "--reports"])
        .arg(folder.path());
    let output = command.arg("--").arg(program).arg(way).output().unwrap();
    let mut reports = Vec::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(path.extension().unwrap(), "reports");
        let text = std::fs::read_to_string(path).unwrap();
        reports.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
    }
    (output.status.code(), told(&output), reports)
}

const POLICIES: [&str; 3] = ["lazy", "seeded", "threads"];

#[test]
fn a_report_is_found_however_its_process_ends() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("abrupt", folder.path()) else {
        return;
    };
    for way in ["exit", "_exit", "signal", "child", "exec", "exec_itself"] {
        for policy in POLICIES {
            let (code, told, reports) = ran(policy, &program, way);
            assert_eq!(code, Some(3), "{way}, {policy}: {told}");
            let kinds: Vec<&Value> = reports.iter().map(|report| &report["kind"]).collect();
            assert_eq!(kinds, ["Race"], "{way}, {policy}: {told}");
            assert_eq!(
                told.matches("Race: `cuMemsetD8Async`").count(),
                1,
                "{way}: {told}"
            );
            let is_abrupt = told.contains("ended by _exit, a signal or exec, and had reported");
            assert_eq!(is_abrupt, way != "exit", "{way}, {policy}: {told}");
        }
    }
}

#[test]
fn what_a_program_took_is_no_report_of_it_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("abrupt", folder.path()) else {
        return;
    };
    for policy in POLICIES {
        let ended = ran(policy, &program, "taken");
        assert_eq!(ended, (Some(0), String::new(), vec![]), "{policy}");
    }
}

#[test]
fn a_fork_during_the_first_call_leaves_a_child_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("forks", folder.path()) else {
        return;
    };
    let ended = ran("lazy", &program, "now");
    assert_eq!(ended, (Some(0), String::new(), vec![]));
}

#[test]
fn races_of_work_that_nobody_waited_for_are_reported_at_the_exit() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("abrupt", folder.path()) else {
        return;
    };
    for policy in POLICIES {
        let (code, told, reports) = ran(policy, &program, "pending");
        assert_eq!(code, Some(3), "{policy}: {told}");
        assert_eq!(
            (reports.len(), &reports[0]["kind"]),
            (1, &Value::from("Race")),
            "{policy}: {told}"
        );
    }
    // Work that is behind a host function too, which nobody calls at the exit.
    let (code, told, reports) = ran("lazy", &program, "pending_behind_a_function");
    assert_eq!((code, reports.len()), (Some(3), 1), "{told}");
    assert!(!told.contains("called"), "{told}");
}
