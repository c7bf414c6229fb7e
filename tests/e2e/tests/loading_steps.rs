//! A load that fails at any step leaves nothing behind. Alone in its process, since it counts files.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crossdock::{PluginState, Runtime};
use crossdock_e2e::{compile_plugin, ext_dev, root};

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn writable_by_others(folder: &Path) -> PathBuf {
    let file = folder.join("writable.so");
    fs::copy(ext_dev(folder), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    file
}

#[test]
fn a_failed_step_leaves_the_registry_and_the_open_files_as_they_were() {
    let faulty = root().join("tests/plugins/faulty.c");
    let other = root().join("tests/plugins/other_version.c");
    let steps = [
        (&other, "-DOTHER_MAJOR"),
        (&faulty, "-DENTRY_NULL"),
        (&faulty, "-DNULL_HOOK"),
        (&faulty, "-DEMPTY_GROUP"),
        (&faulty, "-DPROBE_FAILS"),
        (&faulty, "-DPROBE_GARBAGE"),
        (&faulty, "-DOPEN_FAILS"),
        (&faulty, "-DCOUNT_FAILS"),
        (&faulty, "-DINFO_FAILS"),
    ];
    let runtime = Runtime::builder().search(false).open().unwrap();
    for (source, step) in steps {
        let folder = tempfile::tempdir().unwrap();
        let file = compile_plugin(source, folder.path(), &[step]);
        fails_and_leaves_nothing(&runtime, &file, step);
        good_after(&runtime, folder.path(), step);
    }
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    fs::write(&text, "hello").unwrap();
    fails_and_leaves_nothing(&runtime, &text, "text");
    if std::env::var_os("CROSSDOCK_TRUST_PATHS").is_none() {
        let file = writable_by_others(folder.path());
        fails_and_leaves_nothing(&runtime, &file, "ownership");
    }
    good_after(&runtime, folder.path(), "text and ownership");
}

/// A plugin that cannot be used is not listed, and holds nothing.
fn fails_and_leaves_nothing(runtime: &Runtime, file: &Path, step: &str) {
    let before = open_files();
    assert!(runtime.load(file).is_err(), "{step}");
    // The next load forgets what nobody uses any more.
    assert!(runtime.load(Path::new("/nowhere.so")).is_err());
    assert_eq!(runtime.devices().len(), 1, "{step}");
    assert_eq!(runtime.plugins().len(), 1, "{step}");
    assert!(open_files() <= before + 1, "{step}");
}

fn good_after(runtime: &Runtime, folder: &Path, step: &str) {
    let plugin = runtime.load(&ext_dev(folder)).unwrap();
    assert_eq!(*plugin.state(), PluginState::Ready, "{step}");
    assert_eq!(runtime.devices().len(), 2, "{step}");
    runtime.retire(&plugin).unwrap();
}
