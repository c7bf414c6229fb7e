//! Drivers that cannot be used: each is one clear line.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]
#![expect(unsafe_code, reason = "opens the plugin without a host")]

use std::path::Path;
use std::process::Command;

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::ProbeState;
use crossdock_sdk::plugin::{Host, Plugin as _, read_fixed_text};

const CHILD: &str = "CROSSDOCK_PROBING_CHILD";

/// Probes in a process of its own, where `libcuda.so.1` is that of `folder`; what the probe says.
fn probed(folder: &Path) -> String {
    told_by(folder, "probe: ")
}

/// What a process says of the probe, or of the opening behind it, which has to be one line.
fn told_by(folder: &Path, of: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let output = Command::new(test)
        .args(["--exact", "a_child_probes", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    let said = told.lines().find_map(|line| line.split_once(of));
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
    // SAFETY: there is no host.
    let host = unsafe { Host::from_raw(std::ptr::null()) };
    match Cuda::open(host) {
        Ok(_) => println!("open: well"),
        Err(error) => println!("open: {}: {}", error.operation(), error.message()),
    }
}

/// The functions that the plugin asks for, and whether it needs each.
fn names() -> impl Iterator<Item = (String, bool)> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/functions.rs");
    let table = std::fs::read_to_string(table).unwrap();
    let (needed, optional) = table.rsplit_once("optional {").unwrap();
    let names = |text: &str| {
        let lines = text.lines().filter_map(|line| line.trim().split_once('('));
        let names = lines.map(|(name, _)| name.to_owned());
        names
            .filter(|name| name.starts_with("cu"))
            .collect::<Vec<_>>()
    };
    let of = |text, is_needed| names(text).into_iter().map(move |name| (name, is_needed));
    of(needed, true)
        .chain(of(optional, false))
        .collect::<Vec<_>>()
        .into_iter()
}

/// A function as a driver has it that works for nobody.
fn function(name: &str) -> String {
    match name {
        "cuDriverGetVersion" => {
            "int cuDriverGetVersion(int *v) { *v = VERSION; return 0; }\n".to_owned()
        }
        "cuGetErrorName" | "cuGetErrorString" => {
            format!("int {name}(int error, const char **text) {{ *text = \"TEXT\"; return 0; }}\n")
        }
        name => format!("int {name}(void) {{ return 999; }}\n"),
    }
}

/// A library with the driver's functions, as `written` in C.
fn library_of(folder: &Path, written: impl Fn(&str) -> String) {
    let functions: String = names().map(|(name, _)| written(&name)).collect();
    let source = folder.join("driver.c");
    let version = if functions.contains("old") {
        10_020
    } else {
        12_080
    };
    std::fs::write(&source, functions).unwrap();
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
    driver_whose("cuInit(unsigned flags)", body, is_there)
}

/// The same, where this function has the body, and not the start.
fn driver_whose(declared: &str, body: &str, is_there: impl Fn(&str) -> bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    library_of(folder.path(), |name| match name {
        name if !is_there(name) => String::new(),
        name if declared.starts_with(&format!("{name}(")) => {
            format!("int {declared} {{ {body} }}\n")
        }
        "cuInit" => "int cuInit(unsigned flags) { return 0; }\n".to_owned(),
        name => function(name),
    });
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
    for declared in ["cuInit(unsigned flags)", "cuDriverGetVersion(int *v)"] {
        let (call, _) = declared.split_once('(').unwrap();
        let failing = |code: i32| driver_whose(declared, &format!("return {code};"), |_| true);
        let said = failing(100);
        let wanted = format!("absent a device of `libcuda.so.1`: `{call}` returned 100");
        assert!(said.starts_with(&wanted), "{said}");
        // A library to link with, no such hardware, drivers that do not fit, and what nobody knows.
        for code in [
            1, 2, 3, 34, 35, 46, 101, 304, 500, 801, 802, 803, 804, 999, 12_345,
        ] {
            let advice = match code {
                2 => "free memory of this machine",
                34 => "it is a stub to link programs with: take its folder out of LD_LIBRARY_PATH",
                304 => "ask for the right to use the devices",
                803 | 804 => {
                    "update the driver, and restart the machine where that was done already"
                }
                _ => "restart the machine, or reinstall the driver",
            };
            let wanted = format!("broken `{call}` returned {code} (TEXT): TEXT; {advice}");
            assert_eq!(failing(code), wanted);
        }
    }
}

#[test]
fn a_stub_is_told_by_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    // As NVIDIA's own: every function answers the same, and none writes anything.
    library_of(folder.path(), |name| {
        format!("int {name}(void) {{ return 34; }}\n")
    });
    let said = probed(folder.path());
    let wanted = "broken `cuDriverGetVersion` returned 34, which the driver has no name for; it is a stub to link \
                  programs with: take its folder out of LD_LIBRARY_PATH";
    assert_eq!(said, wanted);
}

#[test]
fn a_driver_that_is_gone_between_probe_and_open_is_one_line() {
    let device = "static int asked; return asked++ ? 100 : 0;";
    for (code, wanted) in [
        (
            100,
            "open: looked for a device of `libcuda.so.1`: `cuInit` returned 100 (TEXT): TEXT",
        ),
        (
            999,
            "cuInit: `cuInit` returned 999 (TEXT): TEXT; restart the machine, or reinstall the driver",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        library_of(folder.path(), |name| match name {
            "cuInit" => {
                let body = device.replace("100", &code.to_string());
                format!("int cuInit(unsigned flags) {{ {body} }}\n")
            }
            "cuDeviceGetCount" => "int cuDeviceGetCount(int *n) { *n = 1; return 0; }\n".to_owned(),
            name => function(name),
        });
        assert!(probed(folder.path()).starts_with("ready "));
        assert_eq!(told_by(folder.path(), "open: "), wanted);
    }
}

#[test]
fn each_function_that_is_needed_is_missed_by_its_name() {
    for missing in names()
        .filter(|(_, is_needed)| *is_needed)
        .map(|(name, _)| name)
    {
        let said = driver("return 0;", |name| name != missing);
        let wanted = format!(
            "broken `libcuda.so.1` is there and lacks `{missing}`: it is no driver, or too old a one; update the driver"
        );
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
