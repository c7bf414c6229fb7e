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
#![expect(
    unsafe_code,
    reason = "calls the runtime beside the plugin, and hooks that touch memory"
)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by it, or says why it was skipped"
)]

mod beside;
mod conformance;
mod faults;
mod hooks;
mod routes;

use std::path::{Path, PathBuf};
use std::process::Command;

const OVER: &str = "CROSSDOCK_OVER_SIM";

/// Whether this is the process over the simulator that runs a test. Else one is started for each set of options, and
/// has to end well without a report.
fn over(test: &str, runs: &[&[&str]]) -> bool {
    if std::env::var(OVER).is_ok_and(|name| name == test) {
        return true;
    }
    let Some(core) = built("libcrossdock_sim.so") else {
        println!("skipped: the simulator is not built (cargo build -p crossdock-sim)");
        return false;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for options in runs {
        let mut command = Command::new(root.join("scripts/with-sim"));
        command.args(*options).arg("--");
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(OVER, test).env("CROSSDOCK_SIM_LIBRARY", &core);
        command.env("CROSSDOCK_COSTS", "off");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = told + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{options:?}:\n{told}");
        assert!(told.contains("1 passed"), "{options:?}:\n{told}");
    }
    false
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
