//! The plugin over the simulated driver: each test starts itself once more by `scripts/with-sim`, which looks at what
//! the simulator reports. `cargo build` first: the tests open the plugin's file and the simulator's.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `driver`, `hooks` | the driver as other libraries call it, with what the simulator tells; the plugin without a host |
//! | `conformance` | the suite that every plugin passes |
//! | `exchanges` | one exchange of each kind, for tests that make a call fail |
//! | `addresses`, `claims`, `masks` | whose an address is, what others say of it, which device a number means |
//! | `memory`, `frees`, `deleters` | what is kept, how each kind of memory goes back, deleters of others |
//! | `copies`, `contexts`, `captures`, `peers` | copies on streams, contexts and captures of others, links |
//! | `faults`, `fault_cases`, `losses` | calls that fail, lost devices |
//! | `lacking`, `optional` | functions that a driver lacks |
//! | `broken`, `defects` | a driver layer with one mistake, and what the checker says of each mistake |
//! | `forks` | the child of a fork |
#![expect(
    unsafe_code,
    reason = "calls the driver beside the plugin, and hooks that touch memory"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::exit,
    reason = "a test fails or ends by it, or says why it was skipped"
)]

mod addresses;
mod broken;
mod captures;
mod claims;
mod conformance;
mod contexts;
mod copies;
mod defects;
mod deleters;
mod driver;
mod exchanges;
mod fault_cases;
mod faults;
mod forks;
mod frees;
mod hooks;
mod lacking;
mod losses;
mod masks;
mod memory;
mod optional;
mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock::{CostCache, Runtime, RuntimeBuilder};

const OVER: &str = "CROSSDOCK_OVER_SIM";

/// Whether this is the process over the simulator that runs a test. Else one is started for each set of options, and
/// has to end well without a report.
fn over(test: &str, runs: &[&[&str]]) -> bool {
    if std::env::var(OVER).is_ok_and(|name| name == test) {
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

/// Runs a test over the simulator, with words in its environment: its exit code and what it said. `None` where there
/// is no simulator.
fn run_over(test: &str, options: &[&str], words: &[(&str, &str)]) -> Option<(Option<i32>, String)> {
    let Some(core) = simulator() else {
        println!("skipped: the simulator is not built (cargo build -p crossdock-sim)");
        return None;
    };
    let mut command = Command::new(root().join("scripts/with-sim"));
    command
        .args(options)
        .args(["--", "timeout", "-s", "KILL", "900"])
        .arg(std::env::current_exe().unwrap());
    let exact = ["--exact", test, "--include-ignored"];
    command
        .args(exact)
        .args(["--nocapture", "--test-threads=1"]);
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn simulator() -> Option<PathBuf> {
    let named = std::env::var_os("CROSSDOCK_SIM_LIBRARY").map(PathBuf::from);
    named.or_else(|| built("libcrossdock_sim.so"))
}

/// A file of this build: beside the test, where each build puts it, or where `cargo build` alone does.
fn built(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let folders = test.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.exists())
}

const POLICIES: [&[&str]; 3] = [
    &["--cuda", "2", "--policy", "lazy"],
    &["--cuda", "2", "--policy", "seeded"],
    &["--cuda", "2", "--policy", "threads"],
];

/// The plugins of this build. OpenCL's is not among them where it was not built.
fn plugins() -> RuntimeBuilder {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let builder = builder.plugin(built("libcrossdock_plugin_cuda.so").unwrap());
    match built("libcrossdock_plugin_opencl.so") {
        Some(opencl) => builder.plugin(opencl),
        None => builder,
    }
}

/// A runtime with them.
fn runtime() -> Runtime {
    plugins().open().unwrap()
}
