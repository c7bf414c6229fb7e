//! Tests over the simulated drivers: each starts itself once more by `scripts/with-sim`, which looks at what the
//! simulator reports. No plugin is linked in here, so that a plugin's own tests can use it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The test that a process over the simulator is to run.
const TEST: &str = "CROSSDOCK_OVER_SIM";

/// Seconds after which a process over the simulator is killed.
const LIMIT: &str = "900";

/// Whether this is a process over the simulator that runs a test.
#[must_use]
pub fn is_over_simulator(test: &str) -> bool {
    std::env::var(TEST).is_ok_and(|name| name == test)
}

/// Whether this is the process over the simulator that runs a test. Else one is started for each set of options of
/// `scripts/with-sim`; nothing is where the simulator was not built.
///
/// # Panics
/// One of the processes failed, or something was reported there.
#[expect(
    clippy::must_use_candidate,
    reason = "a test that only starts others has nothing to do with the answer"
)]
pub fn over_simulator(test: &str, runs: &[&[&str]]) -> bool {
    if is_over_simulator(test) {
        return true;
    }
    for options in runs {
        let Some((code, told)) = run_over(test, options, &[]) else {
            return false;
        };
        assert_eq!(code, Some(0), "{options:?}:\n{told}");
        assert!(told.contains("1 passed"), "{options:?}:\n{told}");
    }
    false
}

/// Runs a test over the simulator, with variables of its own: its exit code and what it said. `None` where the
/// simulator was not built.
///
/// # Panics
/// The process cannot be started.
#[must_use]
#[expect(
    clippy::expect_used,
    reason = "a test that cannot be started has failed"
)]
pub fn run_over(
    test: &str,
    options: &[&str],
    variables: &[(&str, &str)],
) -> Option<(Option<i32>, String)> {
    let Some(core) = core() else {
        say_that_it_is_skipped();
        return None;
    };
    let program = std::env::current_exe().expect("a test has a file");
    let mut command =
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/with-sim"));
    command.args(options);
    command.args(["--", "timeout", "-s", "KILL", LIMIT]);
    command.arg(program);
    command.args(["--exact", test, "--include-ignored"]);
    command.args(["--nocapture", "--test-threads=1"]);
    command.env(TEST, test).env("CROSSDOCK_SIM_LIBRARY", core);
    command.env("CROSSDOCK_COSTS", "off");
    command.envs(variables.iter().copied());
    let output = command.output().expect("scripts/with-sim starts");
    let mut told = format!("{}\n", output.status);
    told += &String::from_utf8_lossy(&output.stdout);
    told += &String::from_utf8_lossy(&output.stderr);
    Some((output.status.code(), told))
}

/// The simulator's library: the one that is named, or that of this build.
fn core() -> Option<PathBuf> {
    let named = std::env::var_os("CROSSDOCK_SIM_LIBRARY").map(PathBuf::from);
    named.or_else(|| built("libcrossdock_sim.so"))
}

/// A file of this build: beside the test, where each build puts it, or where `cargo build` alone does.
#[must_use]
pub fn built(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let folders = test.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.exists())
}

/// Whether there is time for all that can be tried.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("CROSSDOCK_LONG").is_some_and(|value| value == "1")
}

#[expect(
    clippy::print_stdout,
    reason = "this is what the reader of a test run sees"
)]
fn say_that_it_is_skipped() {
    println!("skipped: the simulator is not built (cargo build -p crossdock-sim)");
}
