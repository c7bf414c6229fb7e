//! Programs of C and C++ against the library: compiled by the compilers of this machine, linked with
//! the library under its installed name, each run in a process of its own.
//!
//! `CROSSDOCK_TEST_FLAGS` are more flags for the compilers (`-fsanitize=address,undefined`), and
//! `CROSSDOCK_TEST_RUNNER` is a command to run them by (`valgrind --quiet ..`). OpenCL is left out
//! then: what its drivers do would drown what is ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// How the programs of one language are compiled.
pub(crate) struct Language {
    pub(crate) compiler: &'static str,
    /// The folder of the sources under `tests`, and how their names end.
    pub(crate) folder: &'static str,
    pub(crate) flags: &'static [&'static str],
}

impl Language {
    /// The compiler with its flags and the folders of the headers, and the program's source.
    pub(crate) fn compile(&self, name: &str, more: &[&str]) -> Command {
        let mut command = Command::new(self.compiler);
        command
            .args(self.flags)
            .args(words("CROSSDOCK_TEST_FLAGS"))
            .args(more)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
            .arg("-I")
            .arg(here().join("include"))
            .arg("-I")
            .arg(here().join("../../sdk/include"))
            .arg(here().join(format!("tests/{0}/{name}.{0}", self.folder)));
        command
    }

    /// A folder with the library under the names of an installation, and a program linked with it.
    pub(crate) fn build(&self, name: &str, flags: &[&str]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(library(), folder.path().join("libcrossdock.so.1")).unwrap();
        let linked = folder.path().join("libcrossdock.so");
        std::os::unix::fs::symlink("libcrossdock.so.1", linked).unwrap();
        let mut command = self.compile(name, flags);
        command
            .arg("-L")
            .arg(folder.path())
            .arg("-lcrossdock")
            .arg("-o")
            .arg(folder.path().join("program"));
        compiles(&mut command);
        folder
    }

    /// Compiles and runs a program, which ends with 0, and passes on what it says was skipped.
    pub(crate) fn run(&self, name: &str, flags: &[&str], more: &[&str]) {
        let folder = self.build(name, flags);
        run(folder.path(), name, more);
    }
}

/// Runs the program of a folder, which ends with 0.
pub(crate) fn run(folder: &Path, name: &str, more: &[&str]) {
    let words = runner().into_iter().map(PathBuf::from);
    let mut words = words.chain([folder.join("program")]);
    let mut program = Command::new(words.next().unwrap());
    program
        .args(words)
        .env("LD_LIBRARY_PATH", with_loader_path(folder))
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

/// Runs a compiler, which has nothing to say.
pub(crate) fn compiles(command: &mut Command) {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{complaint}");
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library as cargo built it for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libcrossdock_capi.so")
}

/// The command that programs are run by, word by word; mostly none.
pub(crate) fn runner() -> Vec<String> {
    words("CROSSDOCK_TEST_RUNNER")
}

/// The words of a variable.
fn words(variable: &str) -> Vec<String> {
    let words = std::env::var(variable).unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
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

/// The library's folder before those where vendors' libraries are looked for.
fn with_loader_path(folder: &Path) -> std::ffi::OsString {
    let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&before));
    std::env::join_paths(folders).unwrap()
}
