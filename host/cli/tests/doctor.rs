//! `doctor` on files that no host should meet: each is one error, never a signal.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plugins/ext_dev.c");
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/include");
const PROBE: &str = "static xd_status ext_probe(xd_probe_info *out, xd_plugin_error **error) {";

fn doctor(plugin: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .args(["doctor", "--plugin"])
        .arg(plugin)
        .env("CROSSDOCK_PROBE_LIMIT_MS", "5000")
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .env("CROSSDOCK_COSTS", "off")
        .output()
        .unwrap()
}

/// The C plugin, with something more done when it is loaded and when it is probed.
fn build(folder: &Path, at_load: &str, at_probe: &str) -> PathBuf {
    let source = fs::read_to_string(SOURCE).unwrap();
    assert!(source.contains(PROBE));
    let source = source.replace(PROBE, &format!("{PROBE}\n{at_probe}\n"));
    let source = format!(
        "#define _POSIX_C_SOURCE 200112L\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void at_load(void) {{ {at_load} }}\n{}",
        source.replace("#define _POSIX_C_SOURCE 200112L", "")
    );
    let file = folder.join("hostile.c");
    fs::write(&file, source).unwrap();
    let plugin = folder.join("libcrossdock_plugin_hostile.so");
    let built = Command::new("cc")
        .args([
            "-std=gnu99",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-pthread",
            "-I",
            INCLUDE,
        ])
        .args([&file, Path::new("-o"), &plugin])
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    plugin
}

fn assert_one_error(plugin: &Path, part: &str) {
    let output = doctor(plugin);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}: {text}",
        plugin.display()
    );
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(
        text.contains("\n  why: ") && text.contains("\n  try: "),
        "{text}"
    );
    assert!(text.contains(plugin.to_str().unwrap()), "{text}");
    assert!(text.contains(part), "{text} has no {part}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_good_plugin_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    let output = doctor(&plugin);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("ext_dev:0"));
}

#[test]
fn files_that_are_no_plugins_are_refused_before_they_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text.so"), "not a library\n").unwrap();
    fs::create_dir(at("folder.so")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling.so")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(at("fifo.so"))
            .status()
            .unwrap()
            .success()
    );
    for name in [
        "text.so",
        "folder.so",
        "dangling.so",
        "fifo.so",
        "missing.so",
    ] {
        assert_one_error(&at(name), "");
    }
}

#[test]
fn a_plugin_truncated_anywhere_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(build(folder.path(), "", "")).unwrap();
    for tenth in 0..10 {
        let cut = folder.path().join(format!("cut{tenth}.so"));
        fs::write(&cut, &whole[..whole.len() * tenth / 10]).unwrap();
        assert_one_error(&cut, "");
    }
}

#[test]
fn a_probe_that_aborts_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "", "abort();"), "SIGABRT");
}

#[test]
fn a_constructor_that_aborts_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "abort();", ""), "SIGABRT");
}

#[test]
fn a_probe_that_hangs_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "", "for (;;) pause();"), "hangs");
}

#[test]
fn a_probe_that_ends_the_process_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "", "_exit(0);"), "code 0");
}

#[test]
fn a_probe_that_prints_a_megabyte_neither_blocks_nor_floods() {
    let folder = tempfile::tempdir().unwrap();
    let print =
        "for (int i = 0; i < 1 << 20; i++) { putchar('x'); fputc('y', stderr); } fflush(stdout);";
    let output = doctor(&build(folder.path(), "", print));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout.len() + output.stderr.len() < 16 << 10);
}

#[test]
fn a_plugin_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o666)).unwrap();
    assert_one_error(&plugin, "");
}
