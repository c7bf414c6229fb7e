//! C programs against the library: compiled by the C compiler of this machine, linked with the
//! library under its installed name, each run in a process of its own.
//!
//! `CROSSDOCK_TEST_RUNNER` is a command to run them by (`valgrind --quiet ..`). OpenCL is left out
//! then: what its drivers do would drown what is ours.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "every function of this file is part of a test"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library as cargo built it for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libcrossdock_capi.so")
}

/// The command that programs are run by, word by word; mostly none.
fn runner() -> Vec<String> {
    let runner = std::env::var("CROSSDOCK_TEST_RUNNER").unwrap_or_default();
    runner.split_whitespace().map(str::to_owned).collect()
}

/// The plugin's file, where this run built it.
fn opencl() -> Option<PathBuf> {
    if !runner().is_empty() {
        return None;
    }
    let library = library();
    let profile = library.parent()?.parent()?;
    let file = profile.join("libcrossdock_plugin_opencl.so");
    file.exists().then_some(file)
}

/// A folder with the library under the names of an installation, and a program linked with it.
fn build(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library(), folder.path().join("libcrossdock.so.1")).unwrap();
    let linked = folder.path().join("libcrossdock.so");
    std::os::unix::fs::symlink("libcrossdock.so.1", linked).unwrap();
    let output = Command::new("cc")
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-g"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
        .arg("-I")
        .arg(here().join("include"))
        .arg("-I")
        .arg(here().join("../../sdk/include"))
        .arg(here().join(format!("tests/c/{name}.c")))
        .arg("-L")
        .arg(folder.path())
        .arg("-lcrossdock")
        .arg("-o")
        .arg(folder.path().join("program"))
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc {name}.c:\n{complaint}");
    folder
}

/// Runs a program, which ends with 0, and passes on what it says was skipped.
fn run(name: &str, more: &[&str]) {
    let folder = build(name);
    let words = runner().into_iter().map(PathBuf::from);
    let mut words = words.chain([folder.path().join("program")]);
    let mut program = Command::new(words.next().unwrap());
    program
        .args(words)
        .env("LD_LIBRARY_PATH", with_loader_path(folder.path()))
        .env("CROSSDOCK_COSTS", "off")
        .env_remove("CROSSDOCK_PLUGIN_PATH");
    match opencl() {
        Some(file) => program.arg(file),
        None if more.is_empty() => &mut program,
        None => program.arg(""),
    };
    let output = program.args(more).output().unwrap();
    let (out, complaint) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{out}");
    assert!(
        output.status.success(),
        "{name} {more:?}: {}\n{out}{complaint}",
        output.status
    );
}

/// The library's folder before those where vendors' libraries are looked for.
fn with_loader_path(folder: &Path) -> std::ffi::OsString {
    let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&before));
    std::env::join_paths(folders).unwrap()
}

macro_rules! programs {
    ($($test:ident: $name:literal $($more:literal)*;)*) => {$(
        #[test]
        fn $test() {
            run($name, &[$($more),*]);
        }
    )*};
}

programs! {
    errors_are_objects_with_parts: "errors";
    a_process_has_one_runtime_that_knows_its_plugins_and_devices: "runtimes";
    tensors_come_in_and_go_out_as_dlpack: "exchange";
    memory_with_an_owner_is_viewed_and_released_once: "memory";
    tensors_move_by_routes_that_are_explained: "routes";
    streams_and_events_order_work: "streams";
    pointers_are_asked_for_their_owner: "pointers";
    the_log_goes_to_a_function_on_any_thread: "log";
    a_trace_is_started_and_stopped: "trace";
    a_child_of_a_fork_has_a_runtime_of_its_own: "fork";
    many_threads_share_a_process: "threads";
    a_null_is_an_error_and_never_a_crash: "nulls";
    a_program_exits_with_live_handles: "exit" "forwards";
    a_program_exits_with_live_handles_in_another_order: "exit" "backwards";
}

#[test]
fn scripts_run_in_sessions() {
    if !runner().is_empty() {
        println!("skipped: a tool would report what Python does");
        return;
    }
    run("scripts", &[]);
}
