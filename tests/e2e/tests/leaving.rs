//! The end of a process and its forks, each in a process of its own: nothing crashes and nothing hangs.
#![expect(
    unsafe_code,
    reason = "ends processes, and plays a producer that speaks C"
)]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossdock::{Runtime, Tensor, counted_leaks, exiting};
use crossdock_e2e::{
    asynchronous, compile_plugin, ends, ext_dev, plugin_file, report, root, with_environment,
};
use crossdock_sdk::dlpack::{DataWord, DeviceType, Dtype, Flags, Layout, Produced, TensorView};

/// Ends the program some times, and gives what it said each time.
fn leave(scenario: &str, plugins: &[PathBuf]) -> Vec<String> {
    (0..ends()).map(|_| leave_once(scenario, plugins)).collect()
}

fn leave_once(scenario: &str, plugins: &[PathBuf]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_leaving"))
        .arg(scenario)
        .args(plugins)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{scenario} {plugins:?}: {:?} {text}",
        output.status
    );
    text
}

/// The C plugin, the one on simulated devices, the CPU's file and, where they were built and run here, OpenCL.
fn plugins(folder: &Path) -> Vec<PathBuf> {
    let mut plugins = vec![ext_dev(folder), asynchronous()];
    for name in ["cpu", "opencl"] {
        match plugin_file(name) {
            Some(file) => plugins.push(file),
            None => report(&format!(
                "skipped in part: `{name}` was not built in this run"
            )),
        }
    }
    plugins
}

fn both_orders(scenarios: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut plugins = plugins(folder.path());
    for scenario in scenarios {
        leave(scenario, &plugins);
    }
    plugins.reverse();
    for scenario in scenarios {
        leave(scenario, &plugins);
    }
}

#[test]
fn hooks_called_from_destructors_answer_exiting_or_work_in_both_load_orders() {
    both_orders(&[
        "static-destructor",
        "atexit-before",
        "atexit-after",
        "thread-local",
    ]);
}

#[test]
fn plugins_that_are_retired_while_tensors_live_give_everything_back() {
    both_orders(&["retire"]);
}

#[test]
fn a_thread_that_outlives_main_ends_with_the_process() {
    both_orders(&["detached-thread"]);
}

#[test]
fn every_inherited_hook_answers_forked_and_a_child_has_the_cpu() {
    both_orders(&["fork"]);
}

#[test]
fn a_fork_amid_busy_threads_leaves_no_lock_held_in_the_child() {
    let folder = tempfile::tempdir().unwrap();
    leave("fork-busy", &[ext_dev(folder.path())]);
}

#[test]
fn a_process_ends_while_copies_of_foreign_memory_wait_and_gives_none_of_it_back() {
    for scenario in ["in-flight", "in-flight-fork"] {
        for text in leave(scenario, &[asynchronous()]) {
            assert!(!text.contains("given back"), "{scenario}: {text}");
        }
    }
}

#[test]
fn a_wait_for_releases_ends_when_the_process_does() {
    both_orders(&["waiting"]);
}

#[test]
fn loading_plugins_installs_no_signal_handler() {
    let folder = tempfile::tempdir().unwrap();
    let mut plugins = vec![ext_dev(folder.path())];
    plugins.extend(plugin_file("cpu"));
    leave("signals", &plugins);
}

#[test]
fn a_plugin_is_told_of_the_exit_before_what_it_registered_for_that_and_both_may_log() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/logs_late.c");
    let plugin = compile_plugin(&source, folder.path(), &[]);
    let both = "logs_late: told of the exit\nlogs_late: the process ends\n";
    for text in leave("static-destructor", &[plugin]) {
        assert!(text.contains(both), "{text}");
    }
}

#[test]
fn a_plugin_that_is_being_opened_when_the_exit_begins_is_told_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/with_driver.c");
    let flags = [
        "-DNAME=\"late\"",
        "-DTYPES=\"hexagon\"",
        "-DNUMBERS=16",
        "-DSAYS_EXIT",
    ];
    let plugin = compile_plugin(&source, folder.path(), &flags);
    for text in leave("first-look", &[plugin]) {
        assert_eq!(text, "with_driver: told of the exit\n");
    }
}

#[test]
fn a_hook_that_fails_because_the_process_exits_answers_exiting() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/answers_late.c");
    let plugin = compile_plugin(&source, folder.path(), &[]);
    leave("inside-a-hook", &[plugin]);
}

#[test]
fn a_plugin_is_told_in_the_child_that_it_was_forked() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/logs_late.c");
    let plugin = compile_plugin(&source, folder.path(), &[]);
    for text in leave("fork", &[plugin]) {
        assert_eq!(text.matches("the child of a fork").count(), 1, "{text}");
    }
}

/// Ends the program that drops lent memory, so often.
fn drop_lent_memory(scenario: &str, rounds: u32) {
    for round in 0..rounds {
        let mut program = Command::new(env!("CARGO_BIN_EXE_dropping"));
        let output = program.arg(scenario).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let status = output.status;
        assert!(
            status.success(),
            "{scenario}, round {round}: {status} {text}"
        );
    }
}

#[test]
fn an_exit_while_dropped_memory_is_copied_leaves_it_to_the_copies() {
    drop_lent_memory("copies", 20);
}

#[test]
fn an_exit_waits_for_a_release_that_has_begun() {
    drop_lent_memory("release", 20);
}

#[test]
fn an_exit_waits_for_no_release_that_is_over_or_that_a_child_does_not_have() {
    drop_lent_memory("released", ends());
    drop_lent_memory("stuck-fork", ends());
}

#[test]
fn an_exit_goes_on_without_a_release_that_does_not_end() {
    drop_lent_memory("stuck", ends());
}

static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Bytes whose release takes a while.
struct Slow(Vec<u8>);

impl AsRef<[u8]> for Slow {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        if exiting() {
            // SAFETY: it ends the process.
            unsafe { libc::_exit(8) };
        }
        HAS_BEGUN.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            std::thread::yield_now();
        }
        IS_OVER.store(true, Ordering::SeqCst);
    }
}

extern "C" fn is_amid_a_release() {
    if HAS_BEGUN.load(Ordering::SeqCst) && !IS_OVER.load(Ordering::SeqCst) {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(9) };
    }
}

#[test]
fn an_exit_waits_for_a_release_that_a_thread_makes_itself() {
    let name = "an_exit_waits_for_a_release_that_a_thread_makes_itself";
    if !with_environment(name, &[]) {
        return;
    }
    // Registered before the runtime, so it runs after it.
    // SAFETY: a function of this program that takes nothing.
    assert_eq!(unsafe { libc::atexit(is_amid_a_release) }, 0);
    let runtime = Runtime::builder().search(false).open().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let owner = Box::new(Slow(vec![1; 64]));
    let tensor = Tensor::from_host_memory(&runtime, owner, 0, &layout).unwrap();
    let runtime = Arc::new(runtime);
    let kept = Arc::clone(&runtime);
    std::thread::spawn(move || {
        drop(tensor);
        drop(kept);
    });
    while !HAS_BEGUN.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    // SAFETY: the process ends here, with what was registered for that.
    unsafe { libc::exit(0) };
}

/// Ends the process where it is released.
struct Kept;

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(8) };
    }
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

extern "C" fn import_what_is_refused() {
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let nowhere = DeviceType::from_raw(0x7fff).device(0);
    let data = DataWord::from_addr(64);
    let view = TensorView::new(layout, data, 0, nowhere, Flags::NONE).unwrap();
    let managed = || Produced::new(Kept, &view).unwrap().into_raw();
    let runtime = RUNTIME.get().unwrap();
    // SAFETY: a live export that nobody else owns.
    let refused = unsafe { Tensor::import_managed(runtime, managed()) }.is_err();
    let mut other = managed();
    // SAFETY: alive, and nobody else has it.
    unsafe { other.as_mut() }.version.major = 7;
    // SAFETY: as above; of another version nothing but version and deleter is touched.
    let again = unsafe { Tensor::import_managed(runtime, other) };
    let without_owner = Tensor::from_host_memory(runtime, Box::new(Bytes(Kept)), 64, view.layout());
    let all = refused && again.is_err() && without_owner.is_err();
    if !(all && exiting() && counted_leaks() == 3) {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(9) };
    }
}

/// Bytes that are too few.
struct Bytes(Kept);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        let Self(_kept) = self;
        &[1; 64]
    }
}

#[test]
fn what_an_import_refuses_once_the_process_exits_is_leaked() {
    let name = "what_an_import_refuses_once_the_process_exits_is_leaked";
    if !with_environment(name, &[]) {
        return;
    }
    // Registered before the runtime, so it runs after it.
    // SAFETY: a function of this program that takes nothing.
    assert_eq!(unsafe { libc::atexit(import_what_is_refused) }, 0);
    let runtime = Runtime::builder().search(false).open().unwrap();
    RUNTIME.set(runtime).unwrap();
    // SAFETY: the process ends here, with what was registered for that.
    unsafe { libc::exit(0) };
}
