//! Runtimes that cannot be used: each is one clear line.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::Path;
use std::process::Command;

use crossdock_plugin_rocm::Plugin as Rocm;
use crossdock_sdk::abi::ProbeState;
use crossdock_sdk::plugin::{Plugin as _, read_fixed_text};

const CHILD: &str = "CROSSDOCK_PROBING_CHILD";
const NEW: &str = "libamdhip64.so.7";
const OLD: &str = "libamdhip64.so.6";

/// Probes in a process of its own, where the libraries are those of `folder`, and `preloaded` is there before; what
/// the probe says.
fn probed(folder: &Path, preloaded: Option<&str>) -> String {
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new(test);
    command.args(["--exact", "a_child_probes", "--nocapture"]);
    command.env(CHILD, "1").env("LD_LIBRARY_PATH", folder);
    if let Some(name) = preloaded {
        command.env("LD_PRELOAD", folder.join(name));
    }
    let output = command.output().unwrap();
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
    let info = Rocm::probe().unwrap();
    let state = match info.state {
        ProbeState::READY => "ready",
        ProbeState::ABSENT => "absent",
        _ => "broken",
    };
    println!("probe: {state} {}", read_fixed_text(&info.detail));
}

/// What a made library answers.
struct Made {
    name: &'static str,
    version: i32,
    /// What the question for the version answers.
    asked: i32,
    started: i32,
    counted: i32,
}

impl Made {
    const WORKING: Self = Self {
        name: NEW,
        version: 70_051_831,
        asked: 0,
        started: 0,
        counted: 100,
    };

    /// Makes a library with the runtime's functions.
    fn put(&self, folder: &Path, is_there: impl Fn(&str) -> bool) {
        let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/functions.rs");
        let table = std::fs::read_to_string(table).unwrap();
        let names = table.lines().filter_map(|line| line.trim().split_once('('));
        let names = names.map(|(name, _)| name);
        let names = names.filter(|name| name.starts_with("hip") && is_there(name));
        let functions = names.map(|name| match name {
            "hipInit" => format!("int hipInit(unsigned f) {{ return {}; }}\n", self.started),
            "hipGetDeviceCount" => {
                let counted = self.counted;
                format!("int hipGetDeviceCount(int *n) {{ return {counted}; }}\n")
            }
            "hipRuntimeGetVersion" => {
                let (version, asked) = (self.version, self.asked);
                format!("int {name}(int *v) {{ *v = {version}; return {asked}; }}\n")
            }
            "hipDrvGetErrorName" | "hipDrvGetErrorString" => {
                format!("int {name}(int e, const char **text) {{ *text = \"TEXT\"; return 0; }}\n")
            }
            name => format!("int {name}(void) {{ return 999; }}\n"),
        });
        let functions: String = functions.collect();
        assert!(functions.contains("hipStreamDestroy") || !is_there("hipStreamDestroy"));
        let source = folder.join("runtime.c");
        std::fs::write(&source, functions).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", &format!("-Wl,-soname,{}", self.name)])
            .arg(source)
            .arg("-o")
            .arg(folder.join(self.name))
            .status();
        assert!(made.unwrap().success());
    }

    /// What a probe says where this is the only library.
    fn probed(&self, is_there: impl Fn(&str) -> bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        self.put(folder.path(), is_there);
        probed(folder.path(), None)
    }
}

#[test]
fn no_runtime_is_absent_and_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let said = probed(folder.path(), None);
    // A machine that has one has it here as well.
    if said.starts_with("ready") {
        return;
    }
    let wanted = format!("absent AMD's HIP runtime: looked for `{NEW}` and `{OLD}` in ");
    assert!(said.starts_with(&wanted), "{said}");
    let place = folder.path().display().to_string();
    assert!(said.contains(&place), "{said}");
}

#[test]
fn a_file_that_is_no_library_is_broken() {
    for content in ["", "text"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NEW), content).unwrap();
        let said = probed(folder.path(), None);
        let wanted = format!("broken `{NEW}` does not load: ");
        assert!(said.starts_with(&wanted), "{said}");
        // Another one that works is taken.
        Made {
            name: OLD,
            version: 60_443_482,
            ..Made::WORKING
        }
        .put(folder.path(), |_| true);
        let said = probed(folder.path(), None);
        assert!(said.starts_with("absent a device of "), "{said}");
    }
}

#[test]
fn a_library_that_lacks_functions_is_broken_and_names_them() {
    let said = Made::WORKING.probed(|name| name != "hipMemcpyPeerAsync");
    let wanted = format!("broken `{NEW}` is there and lacks `hipMemcpyPeerAsync`");
    assert!(said.starts_with(&wanted), "{said}");
    let said = Made::WORKING.probed(|name| name == "hipInit");
    assert!(
        said.contains("`hipDrvGetErrorString` and ") && said.contains(" more: it is no driver"),
        "{said}"
    );
}

#[test]
fn versions_that_nobody_knows_are_absent_with_their_number() {
    for (name, version, number) in [
        (OLD, 50_221_153, "5.2"),
        (NEW, 80_000_000, "8.0"),
        (NEW, 5, "0.0"),
    ] {
        let made = Made {
            name,
            version,
            started: 999,
            ..Made::WORKING
        };
        // Those of other versions lack functions too.
        let said = made.probed(|function| function != "hipStreamGetDevice");
        let wanted = format!("absent HIP 6 or 7: `{name}` is HIP {number} (version {version})");
        assert_eq!(said, wanted);
    }
}

#[test]
fn the_library_of_the_process_comes_first_and_then_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let old = Made {
        name: OLD,
        version: 60_443_482,
        started: 303,
        ..Made::WORKING
    };
    old.put(folder.path(), |_| true);
    assert!(probed(folder.path(), None).contains("`hipInit` returned 303"));
    let new = Made {
        started: 304,
        ..Made::WORKING
    };
    new.put(folder.path(), |_| true);
    assert!(probed(folder.path(), None).contains("`hipInit` returned 304"));
    assert!(probed(folder.path(), Some(OLD)).contains("`hipInit` returned 303"));
}

#[test]
fn every_error_of_the_start_is_one_line() {
    let failing = |call, code| {
        let mut made = Made::WORKING;
        match call {
            "hipInit" => made.started = code,
            _ => made.asked = code,
        }
        made.probed(|_| true)
    };
    for call in ["hipInit", "hipRuntimeGetVersion"] {
        // Versions differ in how they say that there is no device.
        for code in [100, 101] {
            let said = failing(call, code);
            let wanted = format!("absent a device of `libamdhip64.so`: `{call}` returned {code}");
            assert!(said.starts_with(&wanted), "{said}");
        }
        for code in [1, 2, 3, 35, 303, 999, 1053, 12_345] {
            let advice = match code {
                2 => "free memory of this machine",
                35 => "update the driver, and restart the machine where that was done already",
                _ => "restart the machine, or reinstall the driver",
            };
            let wanted = format!("broken `{call}` returned {code} (TEXT): TEXT; {advice}");
            assert_eq!(failing(call, code), wanted);
        }
    }
}

#[test]
fn no_device_and_a_count_that_fails_are_told_apart() {
    let said = Made::WORKING.probed(|_| true);
    assert!(
        said.starts_with("absent a device of `libamdhip64.so`: `hipGetDeviceCount` returned 100"),
        "{said}"
    );
    let made = Made {
        counted: 999,
        ..Made::WORKING
    };
    let said = made.probed(|_| true);
    assert!(
        said.starts_with("broken `hipGetDeviceCount` returned 999"),
        "{said}"
    );
}
