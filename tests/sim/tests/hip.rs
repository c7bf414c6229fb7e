//! The simulated HIP runtime under programs in C that know of no simulator, and two vendors in one process.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SYMBOLS: &str = include_str!("../src/hip/symbols.in");
const POLICIES: [&str; 3] = ["lazy", "seeded", "threads"];

fn with_sim() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/with-sim"));
    command.env_remove("CROSSDOCK_SIM");
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn compiled(what: &str, words: &[&str]) {
    let output = Command::new("cc").args(words).output().unwrap();
    assert!(output.status.success(), "{what}: {}", told(&output));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A library to link with that has each function under the version that AMD's has it under.
fn library(folder: &Path, soname: &str) -> PathBuf {
    let (source, map) = (folder.join("empty.c"), folder.join("versions.map"));
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut functions = String::new();
    for line in SYMBOLS.lines() {
        let (name, node) = line.split_once(' ').unwrap();
        nodes.entry(node).or_default().push(name);
        writeln!(functions, "int {name}(void) {{ return 0; }}").unwrap();
    }
    std::fs::write(&source, functions).unwrap();
    let nodes = nodes
        .iter()
        .map(|(node, names)| format!("{node} {{ global: {}; }};\n", names.join("; ")));
    std::fs::write(&map, nodes.collect::<String>()).unwrap();
    let library = folder.join(soname);
    let (soname, map) = (
        format!("-Wl,-soname,{soname}"),
        format!("-Wl,--version-script={}", map.display()),
    );
    let words = [
        "-shared",
        "-fPIC",
        "-fno-builtin",
        &soname,
        &map,
        text(&source),
        "-o",
    ];
    compiled("the library", &[&words[..], &[text(&library)]].concat());
    library
}

/// Builds a program of `tests/hip`, linked to a library that has AMD's versions, and to others.
fn program(name: &str, folder: &Path, soname: &str, others: &[&str]) -> PathBuf {
    let versioned = folder.join("versioned");
    std::fs::create_dir_all(&versioned).unwrap();
    let library = library(&versioned, soname);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/hip/{name}.c"));
    let program = folder.join(name);
    let flags = [
        "-std=gnu11",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
    ];
    let files = [text(&source), "-o", text(&program), text(&library)];
    compiled(name, &[&flags[..], &files[..], others].concat());
    program
}

fn simulated(options: &[&str], program: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = with_sim();
    command.args(options).arg("--").arg(program).args(words);
    let output = command.output().unwrap();
    (output.status.code(), told(&output))
}

#[test]
fn the_runtime_does_what_its_documents_say() {
    let folder = tempfile::tempdir().unwrap();
    for (soname, hip) in [
        ("libamdhip64.so.7", "hip=7.0"),
        ("libamdhip64.so.6", "hip=6.4"),
    ] {
        let program = program("behaviour", folder.path(), soname, &[]);
        for policy in POLICIES {
            for queues in ["1", "8"] {
                let options = [
                    "--rocm", "2", "--policy", policy, "--queues", queues, "--set", hip,
                ];
                let ran = simulated(&options, &program, &[]);
                assert_eq!(ran, (Some(0), String::new()), "{hip}, {policy}, {queues}");
            }
        }
    }
}

#[test]
fn what_is_asked_of_the_runtime_is_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = program("behaviour", folder.path(), "libamdhip64.so.7", &[]);
    let code = |options: &[&str]| simulated(options, &program, &[]);
    let (none, text) = code(&["--rocm", "0"]);
    assert!(
        none == Some(1) && text.contains("hipInit(0) answers 100"),
        "{text}"
    );
    let (fault, text) = code(&["--rocm", "1", "--set", "fault=hipMalloc@3=2"]);
    assert!(
        fault == Some(1) && text.contains("hipMalloc(&memory, SIZE) answers 2"),
        "{text}"
    );
    let (lacks, text) = code(&[
        "--rocm",
        "1",
        "--set",
        "missing=hipGetDevicePropertiesR0600",
    ]);
    assert!(
        lacks != Some(0) && text.contains("hipGetDevicePropertiesR0600"),
        "{text}"
    );
}

#[test]
fn masks_choose_devices() {
    let asked = "import ctypes\n\
        hip = ctypes.CDLL('libamdhip64.so')\n\
        count, bus = ctypes.c_int(), ctypes.create_string_buffer(32)\n\
        print(hip.hipGetDeviceCount(ctypes.byref(count)), count.value, end=' ')\n\
        for at in range(count.value):\n    \
            hip.hipDeviceGetPCIBusId(bus, 32, at)\n    \
            print(bus.value.decode()[5:7], end=' ')";
    for (rocr, hip, wanted) in [
        (None, None, "0 3 80 81 82 "),
        (None, Some("2,0"), "0 2 82 80 "),
        (Some("1,2"), Some("1"), "0 1 82 "),
        (Some("0,7,1"), None, "0 1 80 "),
        (Some("GPU-51d0000000000002"), None, "0 1 82 "),
        (None, Some(""), "100 0 "),
    ] {
        let mut command = with_sim();
        command.args(["--rocm", "3", "--", "python3", "-c", asked]);
        for (name, value) in [("ROCR_VISIBLE_DEVICES", rocr), ("HIP_VISIBLE_DEVICES", hip)] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        assert_eq!(
            told(&command.output().unwrap()),
            wanted,
            "{rocr:?}, {hip:?}"
        );
    }
}

/// A program of two vendors.
fn of_two_vendors(folder: &Path) -> PathBuf {
    let made = with_sim()
        .args(["--cuda", "1", "--rocm", "1", "--libraries"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", told(&made));
    let cuda = folder.join("libcuda.so.1");
    let others = [
        "-Wl,--no-as-needed",
        "-Wl,--copy-dt-needed-entries",
        text(&cuda),
    ];
    program("vendors", folder, "libamdhip64.so.7", &others)
}

#[test]
fn each_vendor_refuses_what_is_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let program = of_two_vendors(folder.path());
    for policy in POLICIES {
        let options = ["--cuda", "1", "--rocm", "1", "--policy", policy];
        let ran = simulated(&options, &program, &["apart"]);
        assert_eq!(ran, (Some(0), String::new()), "{policy}");
    }
}

#[test]
fn a_race_between_two_vendors_is_one_race() {
    let folder = tempfile::tempdir().unwrap();
    let program = of_two_vendors(folder.path());
    for policy in POLICIES {
        let options = ["--cuda", "1", "--rocm", "1", "--policy", policy];
        let ran = simulated(&options, &program, &["mended"]);
        assert_eq!(ran, (Some(0), String::new()), "{policy}");
        let (code, text) = simulated(&options, &program, &["race"]);
        assert_eq!(code, Some(3), "{policy}: {text}");
        let both = [
            "Race: `",
            "cuMemcpyDtoHAsync_v2`",
            "hipMemcpyAsync`",
            "no event orders",
        ];
        assert!(both.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn memory_that_the_other_vendor_has_registered_is_not_freed_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let program = of_two_vendors(folder.path());
    let (code, text) = simulated(&["--cuda", "1", "--rocm", "1"], &program, &["freed"]);
    assert_eq!(code, Some(3), "{text}");
    let both = ["Registration: `", "cuMemHostRegister_v2`", "hipHostFree`"];
    assert!(both.iter().all(|part| text.contains(part)), "{text}");
    let (code, text) = simulated(&["--cuda", "1", "--rocm", "1"], &program, &["reset"]);
    assert_eq!(code, Some(3), "{text}");
    // It is reported once, and the range is over for its vendor too.
    assert_eq!(text.matches("crossdock-sim: ").count(), 1, "{text}");
    let both = ["Registration: `", "hipHostRegister`", "cuMemFreeHost`"];
    assert!(both.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn a_registration_that_ends_under_work_of_its_vendor_is_reported_though_the_other_keeps_the_memory()
{
    let folder = tempfile::tempdir().unwrap();
    let program = of_two_vendors(folder.path());
    let (code, text) = simulated(&["--cuda", "1", "--rocm", "1"], &program, &["given_up"]);
    assert_eq!(code, Some(3), "{text}");
    let both = ["FreeInUse: `", "hipMemcpyAsync`", "hipHostUnregister`"];
    assert!(both.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn what_is_exported_is_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = with_sim();
    command
        .args(["--rocm", "1", "--libraries"])
        .arg(folder.path());
    assert!(command.output().unwrap().status.success());
    let names = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(folder.path().join("libcrossdock_sim.so"))
        .output()
        .unwrap();
    let names = String::from_utf8(names.stdout).unwrap();
    let exported = names.lines().filter_map(|line| line.split(' ').next_back());
    let is_hips = |name: &&str| name.starts_with("hip") || name.starts_with("__hip");
    let exported: BTreeSet<&str> = exported.filter(is_hips).collect();
    let table = SYMBOLS.lines().filter_map(|line| line.split(' ').next());
    let table: BTreeSet<&str> = table.collect();
    assert!(table.len() > 450);
    assert_eq!(exported, table);
}
