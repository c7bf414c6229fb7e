//! The plugin over the simulated runtime: each test starts itself once more by `scripts/with-sim`, which looks at what
//! the simulator reports. `cargo build` first: the tests open the files of the simulator and of plugins.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `hooks` | the plugin without a host, and the runtime beside it |
//! | `conformance` | the suite that every plugin passes |
//! | `routes` | tensors between devices of one vendor and of two |
//! | `beside` | what of other users of the runtime stays as it was, and what of theirs is known |
//! | `faults` | calls that fail, lost devices, waits for whole devices |
//! | `vendors` | beside CUDA's plugin: order, hardware queues, chunks, ends |
#![expect(
    unsafe_code,
    reason = "calls the runtime beside the plugin, and hooks that touch memory"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by it, or says why it was skipped"
)]

mod beside;
mod conformance;
mod faults;
mod hooks;
mod routes;
mod vendors;

use std::path::{Path, PathBuf};
use std::process::Command;

const OVER: &str = "CROSSDOCK_OVER_SIM";

/// Whether this is the process over the simulator that runs a test. Else one is started for each set of options, and
/// has to end well without a report.
fn over(test: &str, runs: &[&[&str]]) -> bool {
    if is_inside(test) {
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

/// Whether this is the process over the simulator that runs a test.
fn is_inside(test: &str) -> bool {
    std::env::var(OVER).is_ok_and(|name| name == test)
}

/// Runs a test over the simulator, with words in its environment: its exit code and what it said. `None` where there
/// is no simulator.
fn run_over(test: &str, options: &[&str], words: &[(&str, &str)]) -> Option<(Option<i32>, String)> {
    let Some(core) = built("libcrossdock_sim.so") else {
        println!("skipped: the simulator is not built (cargo build -p crossdock-sim)");
        return None;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/with-sim"));
    command
        .args(options)
        .args(["--", "timeout", "-s", "KILL", "900"])
        .arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(OVER, test).env("CROSSDOCK_SIM_LIBRARY", &core);
    command
        .env("CROSSDOCK_COSTS", "off")
        .envs(words.iter().copied());
    let output = command.output().unwrap();
    let told = format!("{}\n", output.status);
    let told = told + &String::from_utf8_lossy(&output.stdout);
    let told = told + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.code(), told))
}

/// Whether there is time for all that can be tried.
fn is_long() -> bool {
    std::env::var_os("CROSSDOCK_LONG").is_some_and(|value| value == "1")
}

/// A file of this build: beside the test, where each build puts it, or where `cargo build` alone does.
fn built(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let folders = test.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.exists())
}

const POLICIES: [&[&str]; 3] = [
    &["--rocm", "2", "--policy", "lazy"],
    &["--rocm", "2", "--policy", "seeded"],
    &["--rocm", "2", "--policy", "threads"],
];
