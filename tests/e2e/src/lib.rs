//! What the end-to-end tests share: a runtime with the plugins of this checkout.

// The Rust lines of the README run as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

pub mod every_hook;
pub mod lending;
pub mod modelled_memory;
pub mod outsiders;
pub mod simulated;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock::{CostCache, Layer, Runtime, RuntimeBuilder};

/// How often a process runs to its end where that is judged: what goes wrong there goes wrong by chance.
#[must_use]
pub fn ends() -> u32 {
    if crossdock_over_simulator::is_long() {
        20
    } else {
        2
    }
}

/// The checkout's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C plugin with the system's compiler into `folder`. No two results have equal bytes,
/// which would be one plugin.
///
/// # Panics
/// When the compiler is missing or says no.
#[must_use]
pub fn compile_plugin(source: &Path, folder: &Path, flags: &[&str]) -> PathBuf {
    compile_plugin_by("cc", source, folder, flags)
}

/// The same with another compiler.
///
/// # Panics
/// When that is missing or says no.
#[must_use]
pub fn compile_plugin_by(by: &str, source: &Path, folder: &Path, flags: &[&str]) -> PathBuf {
    let name = source
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let output = folder.join(format!(
        "libcrossdock_plugin_{}.so",
        name.unwrap_or_default()
    ));
    let status = compiler(by)
        .args([
            "-std=c99",
            "-O1",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-pthread",
        ])
        .args(["-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(root().join("sdk/include"))
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&output)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{by} {}",
        source.display()
    );
    output
}

/// The C++ plugin of the tests, whose copies throw, compiled into `folder`.
///
/// # Panics
/// When a compiler is missing or says no.
#[must_use]
pub fn throwing(folder: &Path) -> PathBuf {
    let (part, output) = (folder.join("part.o"), folder.join("throws.so"));
    let plugins = root().join("tests/plugins");
    let include = root().join("sdk/include");
    let common = ["-fPIC", "-fvisibility=hidden", "-pthread", "-I"];
    let mut c = Command::new("cc");
    c.args(["-std=c99", "-c", "-Dcrossdock_plugin=crossdock_plugin_in_c"]);
    c.args(common).arg(&include);
    c.arg(plugins.join("ext_dev.c")).arg("-o").arg(&part);
    let mut cpp = compiler("c++");
    cpp.args(["-std=c++17", "-shared"])
        .args(common)
        .arg(&include);
    cpp.arg(plugins.join("throws.cpp"))
        .arg(&part)
        .arg("-o")
        .arg(&output);
    for mut command in [c, cpp] {
        let status = command.status();
        assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    }
    output
}

/// A C or C++ compiler that gives each result a name of its own.
fn compiler(name: &str) -> Command {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut command = Command::new(name);
    command.arg(format!(
        "-Wl,--build-id=0x{:08x}{number:08x}",
        std::process::id()
    ));
    command
}

/// The small C plugin of the tests, compiled into `folder`.
#[must_use]
pub fn ext_dev(folder: &Path) -> PathBuf {
    compile_plugin(&root().join("tests/plugins/ext_dev.c"), folder, &[])
}

/// The C plugin whose memory lives in another process, compiled into `folder`.
#[must_use]
pub fn remote(folder: &Path) -> PathBuf {
    compile_plugin(&root().join("examples/plugin-c/remote.c"), folder, &[])
}

/// The file of a Rust plugin, as the workspace build put it beside the tests; `None` when this
/// run did not build it.
#[must_use]
pub fn plugin_file(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let profile = test.parent()?.parent()?;
    let file = profile.join(format!("libcrossdock_plugin_{name}.so"));
    file.exists().then_some(file)
}

/// The file of the plugin on simulated devices, which every run of these tests builds.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn asynchronous() -> PathBuf {
    let test = std::env::current_exe().ok();
    let folder = test.as_deref().and_then(Path::parent);
    // Beside the tests, or beside a program of this package.
    let places = folder.map(|folder| [folder.to_owned(), folder.join("deps")]);
    let file = places.into_iter().flatten().find_map(|folder| {
        let file = folder.join("libcrossdock_plugin_asynchronous.so");
        (folder.ends_with("deps") && file.exists()).then_some(file)
    });
    match file {
        Some(file) => file,
        None => unreachable!("the dev-dependency on the plugin builds its file too"),
    }
}

/// A runtime with the built-in plugin, the C plugins in this process and in another, the one on simulated
/// devices and, where it was built, OpenCL.
///
/// # Panics
/// When a plugin does not load.
#[must_use]
pub fn everything(folder: &Path) -> Runtime {
    everything_behind(folder, &[])
}

/// The same runtime with layers around each plugin.
///
/// # Panics
/// When a plugin does not load.
#[must_use]
pub fn everything_behind(folder: &Path, layers: &[Layer]) -> Runtime {
    let builder = Runtime::builder().search(false).layers(layers);
    let builder = builder.costs(CostCache::Off);
    let builder = builder.plugin(ext_dev(folder)).plugin(remote(folder));
    let mut builder: RuntimeBuilder = builder.plugin(asynchronous());
    match plugin_file("opencl") {
        Some(file) => builder = builder.plugin(file),
        None => report("skipped: the OpenCL plugin was not built in this run"),
    }
    match builder.open() {
        Ok(runtime) => runtime,
        Err(error) => unreachable!("{error}: {}", error.why()),
    }
}

/// Writes a line for the reader of the test's output.
#[expect(
    clippy::print_stderr,
    reason = "this is what the reader of a test run sees"
)]
pub fn report(line: &str) {
    eprintln!("{line}");
}

/// Runs the test once more in a process of its own whose plugins have these faults. `true` there.
///
/// # Panics
/// When the test fails there.
#[must_use]
pub fn with_faults(test: &str, faults: &str) -> bool {
    with_environment(test, &[("CROSSDOCK_FAULT", faults)])
}

/// Runs the test once more in a process of its own with these variables. `true` there.
///
/// # Panics
/// When the test fails there.
#[must_use]
pub fn with_environment(test: &str, variables: &[(&str, &str)]) -> bool {
    const CHILD: &str = "CROSSDOCK_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let status = std::env::current_exe().and_then(|test_file| {
        let mut command = Command::new(test_file);
        command.args(["--include-ignored", "--exact", test, "--nocapture"]);
        command.env(CHILD, "1").envs(variables.iter().copied());
        command.status()
    });
    let passed = status.is_ok_and(|status| status.success());
    assert!(passed, "{variables:?}");
    false
}

/// Runs `work` and gives what it gives, with the hooks that were called meanwhile in the whole process, in order.
///
/// # Panics
/// When the trace cannot be written or read.
#[expect(clippy::expect_used, reason = "a failure ends the test")]
pub fn traced<T>(folder: &Path, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let file = folder.join("trace.json");
    crossdock::trace::start(&file).expect("a trace begins");
    let done = work();
    crossdock::trace::stop().expect("a trace ends");
    let text = std::fs::read(file).expect("a trace is a file");
    let events: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("a trace is JSON");
    let hooks = events.iter().filter(|event| event["cat"] == "hook");
    let names = hooks.map(|event| event["name"].as_str().unwrap_or_default().to_owned());
    (done, names.collect())
}
