//! What is said of a word that chooses nothing: without it a test would pass on a simulator that does nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn with_sim(options: &[&str], command: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut program = Command::new(root.join("scripts/with-sim"));
    program.args(options).arg("--").args(command);
    program.env_remove("CROSSDOCK_SIM").output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program that goes on where there is no driver, as many do.
const STARTS: [&str; 3] = [
    "python3",
    "-c",
    "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)",
];

#[test]
fn a_word_that_chooses_nothing_is_told_with_what_it_takes_and_is_a_failure() {
    for (set, why) in [
        ("policy=sedeed", "it is `lazy`, `seeded` or `threads`"),
        ("seed=x", "it is a number"),
        ("mem=4T", "K, M or G"),
        ("fault=cuMemAlloc_v2=2", "NAME@NTH=CODE"),
        ("fault=*Mem*@1=2", "one `*` at most"),
        ("leaks=yes", "it is 0 or 1"),
        (
            "devices=2",
            "there is no such word; there are cuda, rocm, policy",
        ),
        ("missing=cuMemAllocAsinc", "`cuMemAllocAsinc` of"),
        ("fault=cuMemAloc_v2@1=2", "no function of the simulated"),
        (
            "fault=exec:cuLaunchHostFunc@1=2",
            "a host function does not fail",
        ),
        (
            "fault=exec:*LaunchHostFunc@1=2",
            "a host function does not fail",
        ),
    ] {
        let output = with_sim(&["--set", set], &STARTS);
        let told = told(&output);
        assert!(told.contains(why), "{set}: {told}");
        assert_eq!(output.status.code(), Some(2), "{set}: {told}");
    }
    for set in [
        "fault=cuMem*@1=2",
        "fault=exec:hipMemcpyAsync@1=719!",
        "fault=exec:cuLaunchHostFunc@1=719!",
        "fault=hipLaunchHostFunc@1=2",
    ] {
        let output = with_sim(&["--set", set], &STARTS);
        assert_eq!(output.status.code(), Some(0), "{set}: {}", told(&output));
    }
}

#[test]
fn an_option_without_its_value_is_told() {
    let output = with_sim(&["--cuda", "2", "--seed"], &["true"]);
    assert_eq!(told(&output), "with-sim: --seed needs a value\n");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn reports_are_kept_where_a_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("reports");
    let options = ["--set", "leaks=1", "--reports", kept.to_str().unwrap()];
    let leaves = "import ctypes\n\
        cuda = ctypes.CDLL('libcuda.so.1')\n\
        context, memory = ctypes.c_void_p(), ctypes.c_uint64()\n\
        cuda.cuInit(0)\n\
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n\
        cuda.cuCtxSetCurrent(context)\n\
        cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))";
    let output = with_sim(&options, &["python3", "-c", leaves]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let files: Vec<_> = fs::read_dir(&kept).unwrap().collect();
    assert_eq!(files.len(), 1);
    let text = fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    assert!(text.contains("\"kind\":\"Leak\""), "{text}");
    assert!(text.contains("cuMemAlloc_v2"), "{text}");
}

#[test]
fn without_the_checker_no_race_is_reported() {
    let races = "import ctypes\n\
        cuda = ctypes.CDLL('libcuda.so.1')\n\
        context, memory, streams = ctypes.c_void_p(), ctypes.c_uint64(), [ctypes.c_void_p(), ctypes.c_void_p()]\n\
        cuda.cuInit(0)\n\
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n\
        cuda.cuCtxSetCurrent(context)\n\
        cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))\n\
        for stream in streams:\n\
        \x20   cuda.cuStreamCreate(ctypes.byref(stream), 1)\n\
        \x20   cuda.cuMemsetD8Async(memory, 1, ctypes.c_size_t(64), stream)\n\
        assert cuda.cuCtxSynchronize() == 0";
    let checked = with_sim(&[], &["python3", "-c", races]);
    assert_eq!(checked.status.code(), Some(3), "{}", told(&checked));
    let unchecked = with_sim(&["--set", "check=0"], &["python3", "-c", races]);
    assert_eq!(unchecked.status.code(), Some(0), "{}", told(&unchecked));
}
