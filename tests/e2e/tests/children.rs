//! What the child of a fork can do, each test in a process of its own: every process ends by its end.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock_e2e::{asynchronous, compile_plugin, ends, ext_dev, plugin_file, report, root};

/// Runs a scenario with plugins that have no driver, and with those that have one.
fn fork(scenario: &str, plain: &[PathBuf], driver: &[PathBuf]) {
    (0..ends()).for_each(|_| fork_once(scenario, plain, driver));
}

fn fork_once(scenario: &str, plain: &[PathBuf], driver: &[PathBuf]) {
    let output = Command::new(env!("CARGO_BIN_EXE_forking"))
        .arg(scenario)
        .args(plain)
        .arg("--driver")
        .args(driver)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{scenario} {plain:?} {driver:?}: {:?} {text}",
        output.status
    );
}

fn plain(folder: &Path) -> Vec<PathBuf> {
    let files = [Some(ext_dev(folder)), plugin_file("cpu")];
    files.into_iter().flatten().collect()
}

fn with_drivers(folder: &Path) -> Vec<PathBuf> {
    let source = root().join("tests/plugins/accelerators.c");
    let mut files = vec![compile_plugin(&source, folder, &[]), asynchronous()];
    match plugin_file("opencl") {
        Some(file) => files.push(file),
        None => report("skipped in part: `opencl` was not built in this run"),
    }
    files
}

#[test]
fn a_child_opens_anew_what_has_no_driver_and_is_told_to_spawn_for_what_has_one() {
    let folder = tempfile::tempdir().unwrap();
    fork("anew", &plain(folder.path()), &with_drivers(folder.path()));
}

#[test]
fn a_child_opens_without_the_drivers_that_its_parent_started() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/accelerators.c");
    fork("found", &[], &[compile_plugin(&source, folder.path(), &[])]);
}

#[test]
fn what_a_driver_was_not_asked_about_stays_the_parents_and_an_inherited_runtime_starts_none() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/with_driver.c");
    let flags = ["-DNAME=\"vendor\"", "-DTYPES=\"cuda\"", "-DNUMBERS=2"];
    fork(
        "claims",
        &[],
        &[compile_plugin(&source, folder.path(), &flags)],
    );
}

#[test]
fn a_driver_that_the_parent_did_not_start_is_the_childs() {
    let folder = tempfile::tempdir().unwrap();
    fork("unopened", &[], &with_drivers(folder.path()));
}

#[test]
fn inherited_host_memory_is_memory_of_others_on_the_childs_cpu() {
    let folder = tempfile::tempdir().unwrap();
    fork("inherited", &plain(folder.path()), &[]);
}

#[test]
fn inherited_memory_with_work_answers_forked() {
    let folder = tempfile::tempdir().unwrap();
    fork("at-work", &plain(folder.path()), &[]);
}

#[test]
fn a_fork_amid_busy_threads_leaves_a_child_that_can_do_everything() {
    let folder = tempfile::tempdir().unwrap();
    fork("amid", &plain(folder.path()), &[]);
}

#[test]
fn a_fork_that_the_first_runtime_of_a_process_came_into_leaves_a_child_that_loads() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/held_at_entry.c");
    fork(
        "unnoticed",
        &[compile_plugin(&source, folder.path(), &[])],
        &[],
    );
}
