//! The simulated CUDA driver under programs in C that know of no simulator: `cuda.h` is NVIDIA's own.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by it, or says why it was skipped"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds a program of `tests/cuda`; `None` where `scripts/setup` could not fetch the header.
fn program(name: &str, folder: &Path) -> Option<PathBuf> {
    let Some(headers) = std::env::var_os("CROSSDOCK_CUDA_HEADER_DIR") else {
        println!("skipped: CROSSDOCK_CUDA_HEADER_DIR is not set; scripts/setup fetches the header");
        return None;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cuda/{name}.c"));
    let program = folder.join(name);
    let made = Command::new(root().join("scripts/with-sim"))
        .arg("--libraries")
        .arg(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", told(&made));
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=gnu11",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
    ]);
    compiler
        .arg("-I")
        .arg(headers)
        .arg(source)
        .arg("-o")
        .arg(&program);
    // Linked to the vendor's name: the symbols are those of the core that it needs.
    compiler.args(["-Wl,--no-as-needed", "-Wl,--copy-dt-needed-entries"]);
    compiler.arg(folder.join("libcuda.so.1"));
    let built = compiler.output().unwrap();
    assert!(built.status.success(), "{}", told(&built));
    Some(program)
}

fn simulated(options: &[&str], program: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(root().join("scripts/with-sim"));
    command.args(options).arg("--").arg(program).args(words);
    command.env_remove("CROSSDOCK_SIM").output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const POLICIES: [&str; 3] = ["lazy", "seeded", "threads"];

#[test]
fn the_driver_does_what_its_documents_say() {
    runs_everywhere("behaviour");
}

#[test]
fn streams_capture_as_the_documents_say() {
    runs_everywhere("capture");
}

#[test]
fn calls_and_streams_wait_as_the_documents_say() {
    runs_everywhere("order");
}

#[test]
fn pools_give_and_keep_memory_as_the_documents_say() {
    runs_everywhere("pools");
}

#[test]
fn addresses_are_known_as_the_documents_say() {
    runs_everywhere("pointers");
}

#[test]
fn memory_goes_between_processes_as_the_documents_say() {
    runs_everywhere("ipc");
}

#[test]
fn what_the_documents_leave_open_is_answered_as_the_page_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("questions", folder.path()) else {
        return;
    };
    let page = std::fs::read_to_string(root().join("docs/gpu.md")).unwrap();
    for policy in POLICIES {
        let output = simulated(&["--policy", policy, "--queues", "8"], &program, &[]);
        // Some questions are mistakes, and reported.
        assert_eq!(output.status.code(), Some(3), "{policy}: {}", told(&output));
        let told = String::from_utf8(output.stdout).unwrap();
        for line in told.lines() {
            let row = format!("| {} |", line.replace('\t', " | "));
            assert!(page.contains(&row), "{policy}: docs/gpu.md lacks {row}");
        }
        assert!(told.lines().count() > 20, "{policy}: {told}");
    }
}

#[test]
fn what_belongs_to_a_context_or_a_thread_ends_with_it() {
    runs_everywhere("ends");
}

#[test]
fn a_lost_device_stays_lost_and_the_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("lost", folder.path()) else {
        return;
    };
    for policy in POLICIES {
        for queues in ["1", "8"] {
            let fault = ["--set", "fault=exec:cuMemsetD8Async@2=700!", "--cuda", "2"];
            let options = ["--policy", policy, "--queues", queues];
            let output = simulated(
                &[fault.as_slice(), options.as_slice()].concat(),
                &program,
                &[],
            );
            let (code, told) = (output.status.code(), told(&output));
            assert_eq!((code, told.as_str()), (Some(0), ""), "{policy}, {queues}");
        }
    }
}

#[test]
fn devices_without_peers_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("behaviour", folder.path()) else {
        return;
    };
    let output = simulated(&["--cuda", "2", "--set", "peers=0"], &program, &[]);
    assert_eq!(
        (output.status.code(), told(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn calls_that_wait_for_a_whole_device_are_told_where_somebody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("reports", folder.path()) else {
        return;
    };
    let output = simulated(
        &["--set", "waits=1"],
        &program,
        &["use_after_free", "mended"],
    );
    let (code, told) = (output.status.code(), told(&output));
    let wait = "crossdock-sim: `cuMemFree_v2` (call ";
    assert!(code == Some(0) && told.starts_with(wait), "{told}");
    assert_eq!(
        told.matches("waited for all work of a device").count(),
        1,
        "{told}"
    );
}

#[test]
fn a_slow_link_takes_longer() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("links", folder.path()) else {
        return;
    };
    for (links, ratio, busy) in [("0:4G,1:1G", "4.0", 4), ("0:1G,1:1G,0-1:5", "1.0", 1)] {
        for policy in POLICIES {
            let set = format!("link={links}");
            let options = ["--cuda", "2", "--policy", policy, "--set", &set];
            let output = simulated(&options, &program, &[]);
            let (code, told) = (output.status.code(), told(&output));
            assert_eq!(code, Some(0), "{policy}: {told}");
            let mut lines = told.lines();
            // By `threads` the events were recorded when the machine came to it.
            let apart = lines.next();
            assert!(apart == Some(ratio) || policy == "threads", "{told}");
            let [first, second] = [0, 1].map(|device| {
                let link: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
                let ends = (&link["from"], &link["to"]);
                assert_eq!(ends, (&json!("host"), &json!(device)), "{told}");
                assert_eq!(link["bytes"], 16 << 20);
                let span = link["last_ns"].as_u64().unwrap() - link["first_ns"].as_u64().unwrap();
                assert_eq!(link["busy_ns"], span);
                span
            });
            // Each copy takes a microsecond besides.
            assert_eq!(second - 1000, busy * (first - 1000));
        }
    }
    for wrong in ["0:0", "64:1G", "0-x:1G", "1G"] {
        let set = format!("link={wrong}");
        let output = simulated(&["--set", &set], &program, &[]);
        let told = told(&output);
        let why = format!("`{set}` of CROSSDOCK_SIM is not understood");
        assert!(told.contains(&why), "{told}");
    }
}

/// A program runs to its end, and nothing is said, under each policy and number of hardware queues.
fn runs_everywhere(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(name, folder.path()) else {
        return;
    };
    for policy in POLICIES {
        for queues in ["1", "2", "8"] {
            let options = ["--cuda", "2", "--policy", policy, "--queues", queues];
            let output = simulated(&options, &program, &[]);
            let (code, told) = (output.status.code(), told(&output));
            assert_eq!(
                (code, told.as_str()),
                (Some(0), ""),
                "{policy}, {queues} queues"
            );
        }
    }
}

/// Each mistake, and both calls as its report names them.
const MISTAKES: [(&str, &str, &str); 18] = [
    (
        "word_too_early",
        "Race: `cuMemsetD8Async`",
        "and `cuMemcpyDtoHAsync_v2`",
    ),
    (
        "rows_out_of_bounds",
        "OutOfBounds: `cuMemAlloc_v2`",
        "and `cuMemsetD2D8Async`",
    ),
    (
        "host_race",
        "HostRace: `cuMemcpyDtoHAsync_v2`",
        "and `host code`",
    ),
    (
        "uninitialised",
        "Uninitialised: `cuMemAlloc_v2`",
        "and `cuMemcpyDtoHAsync_v2`",
    ),
    (
        "stale_stream",
        "Stale: `cuStreamDestroy_v2`",
        "and `cuMemsetD8Async`",
    ),
    (
        "stale_event",
        "Stale: `cuEventDestroy_v2`",
        "and `cuStreamWaitEvent`",
    ),
    ("leak", "Leak: `cuMemAlloc_v2`", "an allocation was left"),
    ("race", "Race: `cuMemcpyHtoDAsync_v2`", "`cuMemsetD8Async`"),
    (
        "recorded_too_early",
        "Race: `cuMemsetD8Async`",
        "`cuMemcpyDtoHAsync_v2`",
    ),
    (
        "use_after_free",
        "UseAfterFree: `cuMemFree_v2`",
        "`cuMemsetD8Async`",
    ),
    (
        "free_in_use",
        "FreeInUse: `cuMemsetD8Async`",
        "`cuMemFreeAsync`",
    ),
    (
        "use_before_allocation",
        "UseBeforeAllocation: `cuMemAllocAsync`",
        "`cuMemsetD8Async`",
    ),
    (
        "out_of_bounds",
        "OutOfBounds: `cuMemAlloc_v2`",
        "`cuMemsetD8Async`",
    ),
    (
        "double_free",
        "DoubleFree: `cuMemFree_v2`",
        "and `cuMemFree_v2`",
    ),
    (
        "unrecorded",
        "Unrecorded: `cuEventCreate`",
        "`cuStreamWaitEvent`",
    ),
    (
        "in_host_function",
        "InHostFunction: `cuStreamQuery`",
        "host functions",
    ),
    (
        "registration",
        "Registration: `cuMemHostRegister_v2`",
        "and `cuMemHostRegister_v2`",
    ),
    (
        "standstill",
        "Standstill: `cuStreamWaitValue32_v2`",
        "only host code can write",
    ),
];

#[test]
fn each_mistake_is_reported_with_its_calls_and_its_mended_form_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("reports", folder.path()) else {
        return;
    };
    for (name, first, second) in MISTAKES {
        // These kinds are looked for when somebody asks for them.
        let set = match name {
            "uninitialised" => "uninitialised=1",
            "leak" => "leaks=1",
            _ => "seed=2",
        };
        for policy in POLICIES {
            let options = ["--policy", policy, "--set", set];
            let output = simulated(&options, &program, &[name]);
            let told = told(&output);
            assert_eq!(output.status.code(), Some(3), "{name}, {policy}: {told}");
            assert_eq!(
                told.matches("crossdock-sim: ").count(),
                1,
                "{name}, {policy}: {told}"
            );
            assert!(
                told.contains(first) && told.contains(second),
                "{name}, {policy}: {told}"
            );
            let mended = simulated(&options, &program, &[name, "mended"]);
            assert_eq!(
                mended.status.code(),
                Some(0),
                "{name}, {policy}: {}",
                self::told(&mended)
            );
        }
    }
}

#[test]
fn there_is_a_mistake_of_each_kind_of_report() {
    let kinds = include_str!("../engine/src/report.rs");
    let (_, kinds) = kinds.split_once("pub enum ReportKind {").unwrap();
    let (kinds, _) = kinds.split_once('}').unwrap();
    let kinds = kinds
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    let made = |kind: &str| {
        let begin = format!("{kind}: ");
        MISTAKES
            .iter()
            .any(|(_, first, _)| first.starts_with(&begin))
    };
    let missing: Vec<&str> = kinds.filter(|kind| !made(kind)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_report_says_where_its_calls_are_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("reports", folder.path()) else {
        return;
    };
    let told = told(&simulated(&[], &program, &["race"]));
    let offsets: Vec<&str> = told
        .split("reports+")
        .skip(1)
        .filter_map(|behind| behind.split(')').next())
        .collect();
    assert_eq!(offsets.len(), 2, "{told}");
    let mut lines = Command::new("addr2line");
    let Ok(lines) = lines.args(["-f", "-e"]).arg(program).args(offsets).output() else {
        println!("skipped: addr2line is not installed");
        return;
    };
    let lines = self::told(&lines);
    let source = include_str!("cuda/reports.c");
    let line_of = |text: &str| 1 + source.lines().position(|line| line.contains(text)).unwrap();
    let first = line_of("cuMemcpyHtoDAsync(memory, pinned, SIZE, one)");
    let second = line_of("cuMemsetD8Async(memory + 100, 1, 50, other)");
    for line in [first, second] {
        assert!(lines.contains(&format!("reports.c:{line}")), "{lines}");
    }
    assert_eq!(lines.matches("race\n").count(), 2, "{lines}");
}

#[test]
fn a_program_that_hangs_is_told_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("reports", folder.path()) else {
        return;
    };
    let mut command = Command::new(root().join("scripts/with-sim"));
    command
        .args(["--", "timeout", "-s", "KILL", "3"])
        .arg(program)
        .arg("standstill");
    let output = command.output().unwrap();
    let told = told(&output);
    assert!(
        told.contains("Standstill: `cuStreamWaitValue32_v2`"),
        "{told}"
    );
    assert_ne!(output.status.code(), Some(0), "{told}");
}

#[test]
fn two_thousand_right_programs_make_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("right", folder.path()) else {
        return;
    };
    for (policy, queues) in [
        ("lazy", "8"),
        ("seeded", "2"),
        ("threads", "1"),
        ("seeded", "8"),
    ] {
        let first = format!("{}", 1 + 500 * queues.len());
        let output = simulated(
            &["--policy", policy, "--queues", queues],
            &program,
            &[&first, "500"],
        );
        let (code, told) = (output.status.code(), told(&output));
        assert_eq!(
            (code, told.as_str()),
            (Some(0), ""),
            "{policy}, {queues} queues"
        );
    }
}

#[test]
fn what_is_asked_of_the_driver_is_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("behaviour", folder.path()) else {
        return;
    };
    let code = |options: &[&str]| {
        let output = simulated(options, &program, &[]);
        (output.status.code(), told(&output))
    };
    // No device, a fault, a function that this driver lacks, and words that are none.
    let (none, text) = code(&["--cuda", "0"]);
    assert!(
        none == Some(1) && text.contains("cuInit(0) answers 100"),
        "{text}"
    );
    let (fault, text) = code(&["--set", "fault=cuMemAlloc_v2@2=2"]);
    assert!(
        fault == Some(1) && text.contains("cuMemAlloc") && text.contains("answers 2"),
        "{text}"
    );
    // One that reaches no device, and the second call of one that enters the engine twice.
    let (fault, text) = code(&["--set", "fault=cuCtxGetDevice@1=719"]);
    assert!(
        fault == Some(1) && text.contains("cuCtxGetDevice") && text.contains("answers 719"),
        "{text}"
    );
    let (fault, text) = code(&["--set", "fault=cuMemcpyDtoH_v2@2=719"]);
    assert!(
        fault == Some(1) && text.contains("cuMemcpyDtoH_v2(back, memory, sizeof back)"),
        "{text}"
    );
    let (lacks, text) = code(&["--set", "missing=cuMemAlloc"]);
    assert!(
        lacks == Some(1) && text.contains("cuGetProcAddress") && text.contains("answers 500"),
        "{text}"
    );
    let (wrong, text) = code(&["--set", "policy=other"]);
    assert!(
        wrong == Some(1) && text.contains("`policy=other` of CROSSDOCK_SIM is not understood"),
        "{text}"
    );
}

#[test]
fn what_a_driver_lacks_is_found_by_no_name() {
    let asked = "import ctypes\n\
        cuda = ctypes.CDLL('libcuda.so.1')\n\
        print([hasattr(cuda, f'cuMemPool{name}') for name in ('Create', 'Destroy', 'TrimTo')])\n\
        found, status = ctypes.c_void_p(), ctypes.c_int()\n\
        print(cuda.cuGetProcAddress_v2(b'cuMemPoolCreate', ctypes.byref(found), 12000, ctypes.c_uint64(0), \
            ctypes.byref(status)), found.value, status.value)\n\
        print(cuda.cuInit(0))";
    let set = "missing=cuMemPoolCreate,cuMemPoolTrimTo";
    let output = simulated(&["--set", set], Path::new("python3"), &["-c", asked]);
    assert_eq!(told(&output), "[False, True, False]\n500 None 1\n0\n");
}

#[test]
fn what_is_exported_is_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(root().join("scripts/with-sim"))
        .arg("--libraries")
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", told(&made));
    let names = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(folder.path().join("libcrossdock_sim.so"))
        .output()
        .unwrap();
    let names = String::from_utf8(names.stdout).unwrap();
    let exported = names.lines().filter_map(|line| line.split(' ').next_back());
    let exported: BTreeSet<&str> = exported.filter(|name| name.starts_with("cu")).collect();
    let table = include_str!("../src/cuda/symbols.in");
    let table: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert!(table.len() > 600);
    assert_eq!(exported, table);
}
