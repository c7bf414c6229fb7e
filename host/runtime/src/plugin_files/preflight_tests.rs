//! Hostile files, each made here from a small plugin in C.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

use super::*;

/// A folder with `good.so`, the plugin that the other files are made from.
pub(super) struct Made {
    folder: TempDir,
}

impl Made {
    /// Compiled once for all tests; each gets a folder of its own.
    pub(super) fn new() -> Self {
        static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let good = GOOD.get_or_init(|| fs::read(made.compile("first.so", SOURCE, &[])).unwrap());
        made.write("good.so", good);
        made
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn good(&self) -> Vec<u8> {
        fs::read(self.path("good.so")).unwrap()
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let text = self.write("plugin.c", source.as_bytes());
        let to = self.path(name);
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&to)
            .arg(text)
            .args(flags);
        assert!(command.status().expect("a C compiler").success());
        to
    }
}

/// A look wherever the files of tests lie.
pub(super) fn look(path: &Path) -> Result<Preflight, PreflightError> {
    let environment = Environment {
        trust_paths: true,
        ..Environment::default()
    };
    preflight(path, &environment)
}

/// The error, after the check that it has three lines and names the file.
fn refused(path: &Path) -> PreflightError {
    let error = look(path).expect_err("the file should be refused");
    let lines = [error.to_string(), error.why(), error.hint()];
    assert!(
        lines[0].contains(path.to_str().unwrap()),
        "{lines:?} does not name the file"
    );
    assert!(
        lines
            .iter()
            .all(|line| !line.is_empty() && !line.contains('\n')),
        "{lines:?}"
    );
    error
}

#[test]
fn a_good_c_plugin_passes_and_tells_what_it_is() {
    let made = Made::new();
    let seen = look(&made.path("good.so")).unwrap();
    assert_eq!(
        (seen.flavour, seen.description.name.as_str()),
        (Flavour::C, "tiny")
    );
    assert_eq!(seen.description.devices, ["ext_dev"]);
    assert!(
        seen.needed.iter().any(|name| name.starts_with("libc.so")),
        "{:?}",
        seen.needed
    );
    let wanted = "libcrossdock_plugin_tiny.so".to_owned();
    assert_eq!(seen.remarks, [Remark::OtherName { wanted }]);
    symlink(made.path("good.so"), made.path("link.so")).unwrap();
    let again = look(&made.path("link.so")).unwrap();
    assert_eq!(
        (again.identity, again.path),
        (seen.identity, seen.path.clone())
    );
    assert!(
        seen.check_version(AbiVersion { major: 1, minor: 9 })
            .is_ok()
    );
    let other = seen
        .check_version(AbiVersion { major: 2, minor: 0 })
        .unwrap_err();
    assert!(other.to_string().contains("ABI 1.0") && other.to_string().contains("ABI 2.0"));
}

#[test]
fn a_plugin_truncated_at_any_of_ten_lengths_is_refused() {
    let made = Made::new();
    let good = made.good();
    for tenth in 0..10 {
        let length = good.len() * tenth / 10 + tenth;
        let path = made.write("cut.so", &good[..length]);
        let error = refused(&path);
        assert!(
            matches!(error, PreflightError::Truncated { .. }),
            "{length} bytes: {error:?}"
        );
    }
}

#[test]
fn a_plugin_zeroed_in_the_middle_is_refused() {
    let made = Made::new();
    let good = made.good();
    let (from, to) = (good.len() / 4, good.len() * 3 / 4);
    let mut bytes = good;
    bytes[from..to].fill(0);
    refused(&made.write("zeroed.so", &bytes));
}

#[test]
fn no_hole_anywhere_makes_the_look_panic() {
    let made = Made::new();
    let good = made.good();
    let mut refusals = 0;
    for start in (0..good.len()).step_by(64) {
        let mut bytes = good.clone();
        let end = good.len().min(start + 512);
        bytes[start..end].fill(0);
        refusals += u32::from(look(&made.write("hole.so", &bytes)).is_err());
        bytes[start..end].fill(0xff);
        refusals += u32::from(look(&made.write("hole.so", &bytes)).is_err());
    }
    assert!(refusals > 0);
}

#[test]
fn a_plugin_for_another_machine_is_refused_with_both_machines() {
    let made = Made::new();
    let mut bytes = made.good();
    let other: u16 = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    bytes[18..20].copy_from_slice(&other.to_ne_bytes());
    let error = refused(&made.write("other.so", &bytes));
    assert!(
        matches!(error, PreflightError::WrongMachine { .. }),
        "{error:?}"
    );
    assert!(
        error.why().contains(std::env::consts::ARCH),
        "{}",
        error.why()
    );
}

#[test]
fn a_folder_is_refused() {
    let made = Made::new();
    fs::create_dir(made.path("folder.so")).unwrap();
    let error = refused(&made.path("folder.so"));
    assert!(
        matches!(
            error,
            PreflightError::NotAFile {
                kind: "a folder",
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_pipe_is_refused_and_does_not_hang() {
    let made = Made::new();
    let pipe = made.path("pipe.so");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let error = refused(&pipe);
    assert!(
        matches!(error, PreflightError::NotAFile { kind: "a pipe", .. }),
        "{error:?}"
    );
}

#[test]
fn a_dangling_link_is_refused_with_its_target() {
    let made = Made::new();
    symlink("/nowhere/at/all.so", made.path("link.so")).unwrap();
    let error = refused(&made.path("link.so"));
    assert!(
        matches!(error, PreflightError::NotFound { link: Some(_), .. }),
        "{error:?}"
    );
    assert!(error.why().contains("/nowhere/at/all.so"));
    let error = refused(&made.path("missing.so"));
    assert!(
        matches!(error, PreflightError::NotFound { link: None, .. }),
        "{error:?}"
    );
}

#[test]
fn a_text_named_so_is_refused() {
    let made = Made::new();
    let error = refused(&made.write("text.so", b"INPUT(libother.so)\n"));
    assert!(
        matches!(error, PreflightError::NotALibrary { seen: "a text", .. }),
        "{error:?}"
    );
    let error = refused(&made.write("plugin.c", b"int main(void) { return 0; }\n"));
    assert!(error.hint().contains("compiled"), "{}", error.hint());
}

#[test]
fn a_plugin_without_the_root_symbol_is_refused() {
    let made = Made::new();
    let source = SOURCE.replace("crossdock_plugin(", "another_name(");
    let error = refused(&made.compile("rootless.so", &source, &[]));
    assert!(matches!(error, PreflightError::NoRoot { .. }), "{error:?}");
}

#[test]
fn a_library_that_does_not_describe_itself_is_refused() {
    let made = Made::new();
    let source = "const void *crossdock_plugin(void) { return 0; }";
    let error = refused(&made.compile("silent.so", source, &[]));
    assert!(
        matches!(error, PreflightError::NoDescription { .. }),
        "{error:?}"
    );
    let source = SOURCE.replace("abi=1.0", "abi=one");
    let error = refused(&made.compile("odd.so", &source, &[]));
    assert!(
        matches!(error, PreflightError::Description { .. }),
        "{error:?}"
    );
}

#[test]
fn a_file_that_this_user_may_not_read_is_refused() {
    let made = Made::new();
    let path = made.path("good.so");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        println!("skipped: root may read everything");
        return;
    }
    assert!(matches!(
        refused(&path),
        PreflightError::NoPermission { .. }
    ));
}

#[test]
fn static_thread_storage_and_absolute_run_paths_are_remarked() {
    let made = Made::new();
    let source = format!("{SOURCE}\n__thread int mine; int *spot(void) {{ return &mine; }}");
    let flags = ["-ftls-model=initial-exec", "-Wl,-rpath,/opt/mine:$ORIGIN"];
    let seen = look(&made.compile("tls.so", &source, &flags)).unwrap();
    assert!(
        seen.remarks.contains(&Remark::StaticTls),
        "{:?}",
        seen.remarks
    );
    let path = Remark::RunPath {
        entry: "/opt/mine".to_owned(),
    };
    assert!(seen.remarks.contains(&path), "{:?}", seen.remarks);
    let exports = Remark::Exports {
        names: vec!["spot".to_owned(), "mine".to_owned()],
    };
    assert!(seen.remarks.contains(&exports), "{:?}", seen.remarks);
    assert_eq!(seen.remarks.len(), 4, "{:?}", seen.remarks);
}

#[test]
fn relocations_that_a_build_kept_refuse_nothing() {
    let made = Made::new();
    let name = "libcrossdock_plugin_tiny.so";
    let kept = made.compile(name, SOURCE, &["-Wl,--emit-relocs"]);
    let seen = look(&kept).unwrap();
    assert_eq!(seen.remarks, []);
}

#[test]
fn the_refusals_have_distinct_messages() {
    let made = Made::new();
    let mut machine = made.good();
    machine[18] ^= 0xff;
    let rootless = SOURCE.replace("crossdock_plugin(", "another_name(");
    let paths = [
        made.write("a.so", &machine),
        made.write("b.so", &made.good()[..3000]),
        made.write("c.so", b"a text\n"),
        made.compile("d.so", &rootless, &[]),
        made.compile("e.so", "int nothing;", &[]),
        made.path("missing.so"),
    ];
    let mut texts: HashSet<String> = paths.iter().map(|path| refused(path).why()).collect();
    let version = look(&made.path("good.so")).unwrap();
    texts.insert(
        version
            .check_version(AbiVersion { major: 2, minor: 0 })
            .unwrap_err()
            .why(),
    );
    let library = "libvendor.so.3".to_owned();
    texts.insert(
        PreflightError::MissingDependency {
            path: "x".into(),
            library,
        }
        .why(),
    );
    texts.insert(PreflightError::NoPermission { path: "x".into() }.why());
    assert_eq!(texts.len(), 9, "{texts:?}");
}

const SOURCE: &str = r#"
#include <stdlib.h>
__attribute__((section(".crossdock"), used))
static const char describe[] =
    "CROSSDOCK1\0" "name=tiny\0" "vendor=Tests\0" "version=1.0.0\0" "abi=1.0\0" "devices=ext_dev\0";
static void *last;
static void *(*const hooks[])(size_t) = {malloc};
const void *crossdock_plugin(void) { last = hooks[0](16); free(last); return hooks; }
"#;

#[test]
fn a_file_that_no_search_takes_by_its_name_is_remarked() {
    let made = Made::new();
    for (name, is_other) in [
        ("libcrossdock_plugin_tiny.so", false),
        ("libcrossdock_plugin_other.so", true),
        ("tiny.so", true),
    ] {
        let seen = look(&made.write(name, &made.good())).unwrap();
        let told = seen.remarks.iter().map(ToString::to_string);
        let told: Vec<_> = told.collect();
        assert_eq!(!told.is_empty(), is_other, "{name}: {told:?}");
        let names_it = |text: &String| text.contains("`libcrossdock_plugin_tiny.so`");
        assert!(told.iter().all(names_it), "{told:?}");
    }
}
