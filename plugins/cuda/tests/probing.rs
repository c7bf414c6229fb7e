//! Drivers that cannot be used: each is one clear line.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::Path;
use std::process::Command;

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::ProbeState;
use crossdock_sdk::plugin::{Plugin as _, read_fixed_text};

const CHILD: &str = "CROSSDOCK_PROBING_CHILD";

/// Probes in a process of its own, where `libcuda.so.1` is that of `folder`; what the probe says.
fn probed(folder: &Path) -> String {
    let test = std::env::current_exe().unwrap();
    let output = Command::new(test)
        .args(["--exact", "a_child_probes", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    let said = told.lines().find_map(|line| line.split_once("probe: "));
    said.unwrap().1.to_owned()
}

#[test]
fn a_child_probes() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let info = Cuda::probe().unwrap();
    let state = match info.state {
        ProbeState::READY => "ready",
        ProbeState::ABSENT => "absent",
        _ => "broken",
    };
    println!("probe: {state} {}", read_fixed_text(&info.detail));
}

/// A library with the driver's functions, all of which answer `body`.
fn library(folder: &Path, body: &str, is_there: impl Fn(&str) -> bool) {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/functions.rs");
    let table = std::fs::read_to_string(table).unwrap();
    let names = table.lines().filter_map(|line| line.trim().split_once('('));
    let names = names.map(|(name, _)| name);
    let names = names.filter(|name| name.starts_with("cu") && is_there(name));
    let functions = names.map(|name| match name {
        "cuInit" => format!("int cuInit(unsigned flags) {{ {body} }}\n"),
        "cuDriverGetVersion" => {
            "int cuDriverGetVersion(int *v) { *v = VERSION; return 0; }\n".to_owned()
        }
        "cuGetErrorName" | "cuGetErrorString" => {
            format!("int {name}(int error, const char **text) {{ *text = \"TEXT\"; return 0; }}\n")
        }
        name => format!("int {name}(void) {{ return 999; }}\n"),
    });
    let source = folder.join("driver.c");
    let functions: String = functions.collect();
    assert!(functions.contains("cuStreamCreate") || !is_there("cuStreamCreate"));
    std::fs::write(&source, functions).unwrap();
    let version = if body.contains("old") { 10_020 } else { 12_080 };
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"])
        .arg(format!("-DVERSION={version}"))
        .arg(source)
        .arg("-o")
        .arg(folder.join("libcuda.so.1"))
        .status();
    assert!(made.unwrap().success());
}

fn driver(body: &str, is_there: impl Fn(&str) -> bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    library(folder.path(), body, is_there);
    probed(folder.path())
}

#[test]
fn no_driver_is_absent_and_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let said = probed(folder.path());
    // A machine that has a driver has one here as well.
    if said.starts_with("ready") {
        return;
    }
    let place = folder.path().display().to_string();
    assert!(
        said.starts_with("absent NVIDIA's driver: looked for `libcuda.so.1`"),
        "{said}"
    );
    assert!(said.contains(&place), "{said}");
}

#[test]
fn a_file_that_is_no_library_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    for content in ["", "text"] {
        std::fs::write(folder.path().join("libcuda.so.1"), content).unwrap();
        let said = probed(folder.path());
        assert!(
            said.starts_with("broken `libcuda.so.1` does not load: "),
            "{said}"
        );
    }
}

#[test]
fn a_library_that_lacks_functions_is_broken_and_names_them() {
    let said = driver("return 0;", |name| name != "cuMemcpyPeerAsync");
    assert!(
        said.starts_with("broken `libcuda.so.1` is there and lacks `cuMemcpyPeerAsync`"),
        "{said}"
    );
    let said = driver("return 0;", |name| name == "cuInit");
    assert!(
        said.contains("`cuGetErrorString` and ") && said.contains(" more: it is no driver"),
        "{said}"
    );
}

#[test]
fn a_driver_that_is_too_old_is_broken_and_says_both_versions() {
    let said = driver("/* old */ return 0;", |_| true);
    assert!(
        said.starts_with("broken the driver is for CUDA 10.2"),
        "{said}"
    );
    assert!(said.contains("needs one for 11.0"), "{said}");
}

#[test]
fn every_error_of_the_start_is_one_line() {
    let said = driver("return 100;", |_| true);
    assert!(
        said.starts_with("absent a device of `libcuda.so.1`: `cuInit` returned 100"),
        "{said}"
    );
    // A library to link with, no such hardware, drivers that do not fit, and what nobody knows.
    for code in [
        1, 2, 3, 34, 35, 46, 101, 304, 500, 801, 802, 803, 804, 999, 12_345,
    ] {
        let said = driver(&format!("return {code};"), |_| true);
        let wanted = format!("broken `cuInit` returned {code} (TEXT): TEXT");
        assert_eq!(said, wanted);
    }
}

#[test]
fn a_driver_that_counts_no_device_is_told_apart() {
    let said = driver("return 0;", |_| true);
    assert!(
        said.starts_with("broken `cuDeviceGetCount` returned 999"),
        "{said}"
    );
}
