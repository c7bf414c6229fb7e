//! Plugins and hosts of other versions of the contract, built apart from each other.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock::{Plugin, PluginState, Runtime, Tensor};
use crossdock_conformance::{Level, Subject};
use crossdock_e2e::{compile_plugin_by, plugin_file, report, root};
use crossdock_sdk::dlpack::{Dtype, Layout};

/// Other ways to build the tiny plugin.
const PROFILES: &str = r#"[profile.dev.package.tiny-fast]
opt-level = 3
codegen-units = 1

[profile.aborts]
inherits = "release"
panic = "abort"
lto = "fat"
"#;

/// Sources of other versions, in a place that stays between runs.
struct Versions {
    folder: PathBuf,
    target: PathBuf,
}

impl Versions {
    /// Writes and builds everything. What the workspace was built from is not built again.
    fn build() -> Self {
        let target = std::env::current_exe().unwrap();
        let target = target.ancestors().nth(3).unwrap().to_owned();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("versions");
        let versions = Self { folder, target };
        versions.write_sdks();
        versions.write_workspace();
        versions.cargo(&["--workspace"]);
        versions.cargo(&["--package", "tiny-same", "--profile", "aborts"]);
        versions
    }

    fn cargo(&self, what: &[&str]) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "--offline", "--quiet", "--target-dir"])
            .arg(&self.target)
            .args(what)
            .current_dir(self.folder.join("all"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    }

    fn built(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }

    /// The same plugin where a panic ends the process, linked as one piece of code.
    fn built_to_abort(&self) -> PathBuf {
        self.target.join("aborts/libtiny_same.so")
    }

    /// A later sdk with one more group, and one that changed a struct it must not change.
    fn write_sdks(&self) {
        let group = "    /// A group of a later version, or NULL.\n    \
                     pub later: StaticPtr<LaterHooks>,\n}\n\n\
                     /// Hooks of a later version.\n#[repr(C)]\n#[derive(StableAbi, Clone, Copy, Debug)]\n\
                     pub struct LaterHooks {\n    /// One hook.\n    \
                     pub hook: Option<unsafe extern \"C\" fn(plugin: PluginHandle) -> Status>,\n}\n\n\
                     /// The group of every plugin of this version.\n\
                     pub static LATER: LaterHooks = LaterHooks { hook: None };\n";
        let end = "    pub peer: StaticPtr<PeerHooks>,\n}\n";
        let grown = format!("    pub peer: StaticPtr<PeerHooks>,\n{group}");
        self.write_sdk("1.1.0", &|path, text| match path {
            "src/abi/table.rs" => replaced(
                &replaced(text, end, &grown),
                "(minor) => {\n        0",
                "(minor) => {\n        1",
            ),
            "src/abi/mod.rs" => replaced(
                text,
                "    ABI_MAJOR, ABI_MINOR,",
                "    LATER, ABI_MAJOR, ABI_MINOR,",
            ),
            "src/plugin/export.rs" => replaced(
                text,
                "        peer: groups.peer,\n",
                "        peer: groups.peer,\n        \
                 later: StaticPtr::new(&crate::abi::LATER),\n",
            ),
            _ => text.to_owned(),
        });
        let field = "    pub alignment: u64,\n";
        let moved = "    pub alignment: u32,\n    /// More than fits here.\n    pub more: u32,\n";
        self.write_sdk("1.0.1", &|path, text| match path {
            "src/abi/types.rs" => replaced(text, field, moved),
            _ => text.to_owned(),
        });
    }

    fn write_sdk(&self, version: &str, change: &dyn Fn(&str, &str) -> String) {
        let to = self.folder.join(format!("sdk-{version}"));
        let sdk = root().join("sdk");
        write_sources(&sdk, &to, change);
        let manifest = fs::read_to_string(sdk.join("Cargo.toml")).unwrap();
        // A root of its own, so that it inherits from nobody else.
        let workspace = workspace(&[], version);
        write(&to.join("Cargo.toml"), &format!("{workspace}\n{manifest}"));
    }

    /// A later host, and the tiny plugin against each sdk.
    fn write_workspace(&self) {
        let all = self.folder.join("all");
        for (name, features) in [("runtime", "[features]\ncpu = []"), ("layers", "")] {
            let from = root().join("host").join(name);
            write_sources(&from, &all.join(name), &|_, text| text.to_owned());
            let manifest = fs::read_to_string(from.join("Cargo.toml")).unwrap();
            let without_cpu: Vec<_> = manifest
                .lines()
                .filter(|line| !line.contains("cpu"))
                .collect();
            let manifest = without_cpu.join("\n").replace("[features]", features);
            write(&all.join(name).join("Cargo.toml"), &manifest);
        }
        let now = root().join("sdk").canonicalize().unwrap();
        let now = now.to_str().unwrap();
        let crates = [
            ("newer", "../../sdk-1.1.0", ""),
            ("changed", "../../sdk-1.0.1", ""),
            ("same", now, ""),
            ("fast", now, "other-allocator"),
            ("panics", now, "probe-panics"),
        ];
        for (name, sdk, feature) in crates {
            self.write_plugin(name, sdk, feature);
        }
        let text = fs::read_to_string(root().join("tests/plugins/rust/host.rs")).unwrap();
        write(&all.join("host/src/main.rs"), &text);
        let dependencies = "crossdock.workspace = true\ncrossdock-sdk.workspace = true\n";
        write(
            &all.join("host/Cargo.toml"),
            &manifest_of("later-host", dependencies, ""),
        );
        let members = [
            "runtime", "layers", "host", "newer", "changed", "same", "fast", "panics",
        ];
        let text = workspace(&members, "1.1.0");
        let text = replaced(
            &text,
            "{ path = \"sdk\", version = \"1.0.0\" }",
            "{ path = \"../sdk-1.1.0\" }",
        );
        let text = replaced(
            &text,
            "{ path = \"host/runtime\", version = \"1.0.0\" }",
            "{ path = \"runtime\" }",
        );
        let text = replaced(
            &text,
            "{ path = \"host/layers\", version = \"1.0.0\" }",
            "{ path = \"layers\" }",
        );
        write(&all.join("Cargo.toml"), &format!("{text}\n{PROFILES}"));
        if !all.join("Cargo.lock").exists() {
            let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
            write(&all.join("Cargo.lock"), &lock);
        }
    }

    fn write_plugin(&self, name: &str, sdk: &str, feature: &str) {
        let folder = self.folder.join("all").join(name);
        let text = fs::read_to_string(root().join("tests/plugins/rust/tiny.rs")).unwrap();
        write(&folder.join("src/lib.rs"), &text);
        let dependencies = format!("crossdock-sdk = {{ path = \"{sdk}\" }}\n");
        let quoted = if feature.is_empty() {
            String::new()
        } else {
            format!("\"{feature}\"")
        };
        let more = format!(
            "[lib]\ncrate-type = [\"cdylib\"]\n\n[features]\ndefault = [{quoted}]\n\
             other-allocator = []\nprobe-panics = []\n"
        );
        let manifest = manifest_of(&format!("tiny-{name}"), &dependencies, &more);
        write(&folder.join("Cargo.toml"), &manifest);
    }
}

fn manifest_of(name: &str, dependencies: &str, more: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{dependencies}\n{more}"
    )
}

/// The manifest of this workspace, with other members and another version.
fn workspace(members: &[&str], version: &str) -> String {
    let text = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (before, rest) = text.split_once("members = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    let members: Vec<_> = members
        .iter()
        .map(|member| format!("\"{member}\""))
        .collect();
    let text = format!("{before}members = [{}]{after}", members.join(", "));
    replaced(
        &text,
        "version = \"1.0.0\"\nedition",
        &format!("version = \"{version}\"\nedition"),
    )
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no `{from}`");
    text.replace(from, to)
}

/// Copies the sources of a crate, changed. What an earlier run wrote and the crate has no more is removed.
fn write_sources(from: &Path, to: &Path, change: &dyn Fn(&str, &str) -> String) {
    let mut written = Vec::new();
    for file in files(&from.join("src")) {
        let name = file.strip_prefix(from).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let copy = to.join(name);
        write(&copy, &change(name.to_str().unwrap(), &text));
        written.push(copy);
    }
    for old in files(&to.join("src")) {
        if !written.contains(&old) {
            fs::remove_file(old).unwrap();
        }
    }
}

/// Leaves a file that is as it should be, so that nothing is built again.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn load(path: &Path) -> Result<(Runtime, std::sync::Arc<Plugin>), crossdock::Error> {
    let runtime = Runtime::builder().search(false).open()?;
    let plugin = runtime.load(path)?;
    Ok((runtime, plugin))
}

/// It loads, and moves a tensor there and back.
fn works(path: &Path) -> (Runtime, std::sync::Arc<Plugin>) {
    let (runtime, plugin) = load(path).unwrap();
    assert_eq!(*plugin.state(), PluginState::Ready);
    let device = runtime.devices().pop().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[1000]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout, &[7; 1000]).unwrap();
    assert_eq!(tensor.read().unwrap(), [7; 1000]);
    (runtime, plugin)
}

/// It works, and passes the core of the suite.
fn passes(path: &Path) {
    let (_runtime, plugin) = works(path);
    let subject = Subject::new(plugin.hooks(), 0).unwrap();
    let report = crossdock_conformance::run(&subject, Level::Core, None);
    assert!(report.passed(), "{}: {report}", path.display());
}

#[test]
fn c_plugins_of_other_compilers_and_optimisers_load_and_pass_the_suite() {
    let source = root().join("tests/plugins/ext_dev.c");
    let builds: [(&str, &[&str]); 5] = [
        ("cc", &["-O0"]),
        ("cc", &["-O3", "-flto", "-fno-plt"]),
        (
            "gcc",
            &[
                "-O2",
                "-fsanitize=undefined",
                "-fsanitize-undefined-trap-on-error",
            ],
        ),
        ("clang", &["-O2"]),
        ("clang", &["-O3", "-flto"]),
    ];
    for (compiler, flags) in builds {
        if Command::new(compiler).arg("--version").output().is_err() {
            report(&format!("skipped in part: `{compiler}` is not installed"));
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        passes(&compile_plugin_by(compiler, &source, folder.path(), flags));
    }
}

#[test]
fn rust_plugins_built_otherwise_load_both_ways_or_are_refused_by_field() {
    let versions = Versions::build();
    // A newer plugin in this host, and plugins of this version built in other ways.
    for name in ["newer", "same", "fast"] {
        works(&versions.built(&format!("libtiny_{name}.so")));
    }
    works(&versions.built_to_abort());
    let error = load(&versions.built("libtiny_changed.so")).unwrap_err();
    let why = error.why();
    assert!(
        why.contains("`allocate.param_1.alignment`: mismatched type"),
        "{why}"
    );
    let panics = load(&versions.built("libtiny_panics.so")).unwrap_err();
    assert!(panics.why().contains("the probe panics"), "{panics}");
    in_a_newer_host(&versions);
}

/// A newer host with plugins of this version, and with one of its own.
fn in_a_newer_host(versions: &Versions) {
    let mut command = Command::new(versions.built("later-host"));
    command.arg(versions.built("libtiny_same.so"));
    command.arg(versions.built("libtiny_newer.so"));
    match plugin_file("cpu") {
        Some(cpu) => drop(command.arg(cpu)),
        None => report("skipped in part: the CPU plugin's file was not built in this run"),
    }
    let output = command.output().unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}{errors}");
    let mut lines = text.lines();
    let (same, newer) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(same, "host 1.1, plugin 1.0, 1 devices, later group absent");
    assert_eq!(newer, "host 1.1, plugin 1.1, 1 devices, later group there");
    for line in lines {
        assert!(
            line.contains("plugin 1.0") && line.contains("absent"),
            "{line}"
        );
    }
}
