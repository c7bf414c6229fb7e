//! `scripts/with-sim` and `crossdock-sim` work in any folder for temporary files, and through a link.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that goes to another folder, and leaves memory behind, which is reported.
const LEAKS: &str = "
import ctypes, os
os.chdir('/')
cuda = ctypes.CDLL('libcuda.so.1')
context, memory = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))
";

/// Names of folders that the loader, a shell or a compiler could misread.
const FOLDERS: [&str; 17] = [
    "a b",
    "a#b",
    "a:b",
    "a;b",
    "$ORIGIN",
    "a$b",
    "a'b",
    "a\"b",
    "a\\b",
    "a,b",
    "a[b]",
    "a*b",
    "a%b",
    "a=b",
    "~",
    "-a",
    "\u{e4}\u{2020}",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn finds_the_leak(mut command: Command) {
    command.args(["--set", "leaks=1", "--", "python3", "-c", LEAKS]);
    command.env_remove("CROSSDOCK_SIM");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{command:?}: {told}");
    assert!(told.contains("64 bytes"), "{command:?}: {told}");
}

/// `scripts/with-sim`, and the command of the wheel, with this folder for temporary files.
fn commands(folder: &OsStr) -> [Command; 2] {
    let with_sim = Command::new(root().join("scripts/with-sim"));
    let mut wheel = Command::new("python3");
    wheel.args(["-m", "crossdock_sim", "run"]);
    wheel.env("PYTHONPATH", root().join("tests/sim/python"));
    wheel.env("PYTHONDONTWRITEBYTECODE", "1");
    let built = std::env::current_exe().unwrap();
    let built = built.ancestors().nth(2).unwrap();
    wheel.env("CROSSDOCK_SIM_LIBRARY", built.join("libcrossdock_sim.so"));
    [with_sim, wheel].map(|mut command| {
        command.env("TMPDIR", folder);
        command
    })
}

#[test]
fn programs_are_simulated_in_any_folder_for_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in FOLDERS {
        let temporary = folder.path().join(name);
        fs::create_dir(&temporary).unwrap();
        for command in commands(temporary.as_os_str()) {
            finds_the_leak(command);
        }
        // Compilers leave files of their own in some of these.
        let mut left = fs::read_dir(&temporary)
            .unwrap()
            .map(|entry| entry.unwrap());
        assert!(left.all(|entry| entry.path().is_file()), "{name}");
    }
}

#[test]
fn programs_are_simulated_in_a_relative_folder_for_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("here")).unwrap();
    symlink("here", folder.path().join("link")).unwrap();
    for name in ["here", "./here", "link"] {
        for mut command in commands(OsStr::new(name)) {
            command.current_dir(folder.path());
            finds_the_leak(command);
        }
    }
}

#[test]
fn with_sim_runs_through_a_link_and_puts_libraries_into_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("with-sim");
    symlink(
        fs::canonicalize(root()).unwrap().join("scripts/with-sim"),
        &link,
    )
    .unwrap();
    finds_the_leak(Command::new(&link));
    for name in FOLDERS {
        let libraries = folder.path().join(name);
        let mut command = Command::new(&link);
        command.args(["--cuda", "1", "--rocm", "1", "--libraries"]);
        let output = command.arg(&libraries).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {told}");
        for file in ["libcuda.so.1", "libamdhip64.so.7", "libcrossdock_sim.so"] {
            assert!(libraries.join(file).is_file(), "{name}: {file}");
        }
    }
}
