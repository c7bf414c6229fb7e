//! Variables and options that name what is no regular file: nothing waits for it or replaces it.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, symlink},
    path::Path,
    process::Command,
};

use crate::{
    c_plugin,
    program::{err, limited, npy, pipe},
};

/// The command ends by itself, and not because of the limit.
fn ends(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let code = output.status.code().unwrap();
    assert_ne!(code, 124, "it waits for ever: {}", err(&output));
    (code, err(&output))
}

fn is_pipe(path: &Path) -> bool {
    fs::symlink_metadata(path).unwrap().file_type().is_fifo()
}

#[test]
fn a_trace_into_a_pipe_or_a_device_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    pipe(&fifo);
    for file in [&fifo, Path::new("/dev/null")] {
        let mut command = limited("true", &["route", "cpu", "cpu"]);
        let (code, told) = ends(command.env("CROSSDOCK_TRACE", file));
        assert_eq!(code, 0, "{told}");
        assert!(told.contains("not a regular file"), "{told}");
    }
    assert!(is_pipe(&fifo));
}

#[test]
fn a_trace_may_have_a_name_that_is_no_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(std::ffi::OsStr::from_bytes(b"t\xff"));
    let mut command = limited("true", &["route", "cpu", "cpu"]);
    let (code, told) = ends(command.env("CROSSDOCK_TRACE", &file));
    assert_eq!(code, 0, "{told}");
    assert!(fs::read(&file).unwrap().starts_with(b"["));
}

#[test]
fn costs_replace_nothing_but_a_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = c_plugin::build(folder.path(), "mine", &c_plugin::Code::default());
    let at = |name: &str| folder.path().join(name);
    pipe(&at("fifo"));
    fs::write(at("theirs"), "{}").unwrap();
    symlink(at("theirs"), at("link")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let device = Command::new("mknod")
        .arg(at("null"))
        .args(["c", "1", "3"])
        .output();
    let device = device.is_ok_and(|made| made.status.success());
    let measure = |name: &str| {
        let mut command = limited("true", &["route", "cpu", "ext_dev", "--plugin"]);
        let (code, told) = ends(command.arg(&plugin).env("CROSSDOCK_COSTS", at(name)));
        assert_eq!(code, 0, "{name}: {told}");
    };
    for name in ["fifo", "link", "folder", "null", "new"] {
        measure(name);
    }
    // A busy machine may be too slow to measure in the time that there is, and then nothing is kept.
    for _ in 0..50 {
        if !at("new").exists() {
            measure("new");
        }
    }
    assert!(is_pipe(&at("fifo")));
    assert_eq!(fs::read_link(at("link")).unwrap(), at("theirs"));
    assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "{}");
    assert!(fs::read_to_string(at("new")).unwrap().contains("records"));
    if device {
        let kind = fs::symlink_metadata(at("null")).unwrap().file_type();
        assert!(kind.is_char_device());
    }
}

#[test]
fn files_that_are_read_or_written_are_regular_ones() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (fifo, array) = (at("fifo.npy"), at("a.npy"));
    pipe(Path::new(&fifo));
    fs::write(&array, npy("4, 6", "False", &[7; 96])).unwrap();
    let lines: [&[&str]; 7] = [
        &["copy", "--to", "cpu:0", &fifo],
        &["matrix", &fifo],
        &["matrix", &array, "--json", &fifo],
        &["matrix", &array, "--html", &fifo],
        &["conform", "builtin", "--level", "core", "--junit", &fifo],
        &["conform", "builtin", "--known-failures", &fifo],
        &["devices", "--plugin", &fifo],
    ];
    for line in lines {
        let (code, told) = ends(&mut limited("true", line));
        assert_eq!(code, 1, "{line:?}: {told}");
        assert!(told.contains("regular file"), "{line:?}: {told}");
        assert!(is_pipe(Path::new(&fifo)), "{line:?}");
    }
}
