//! `inspect` reads plugin files, good and bad, and runs none of their code.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

#[path = "shared/c_plugin.rs"]
mod c_plugin;

fn inspect(file: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .arg("inspect")
        .arg(file)
        .args(options)
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_one_error(file: &Path, part: &str) {
    let output = inspect(file, &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}: {text}", file.display());
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    let lines = ["\n  why: ", "\n  try: ", part, file.to_str().unwrap()];
    for part in lines {
        assert!(text.contains(part), "{text} has no {part}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_plugin_is_described_and_none_of_its_code_runs() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("ran");
    let at_load = format!("fclose(fopen(\"{}\", \"w\"));", trace.display());
    let code = c_plugin::Code {
        at_load: &at_load,
        flags: &["-Wl,-rpath,/opt/vendor/lib"],
        ..Default::default()
    };
    let plugin = c_plugin::build(folder.path(), "told", &code);
    let told = json(&inspect(&plugin, &["--json"]));
    assert_eq!(told["name"], "ext_dev", "{told}");
    assert_eq!(told["language"], "c", "{told}");
    assert_eq!(told["abi"], "1.0", "{told}");
    assert_eq!(told["devices"][0], "ext_dev", "{told}");
    assert!(told["driver"].is_null(), "{told}");
    let needed = told["needed"].as_array().unwrap();
    let c = needed.iter().find(|needed| needed["name"] == "libc.so.6");
    assert_eq!(c.unwrap()["found"], true, "{told}");
    let remarks = told["remarks"].to_string();
    assert!(remarks.contains("/opt/vendor/lib"), "{told}");
    let text = inspect(&plugin, &[]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["ext_dev", "ABI", "1.0", "libc.so.6", "/opt/vendor/lib"] {
        assert!(text.contains(part), "{text} has no {part}");
    }
    assert!(!trace.exists(), "the file was loaded");
}

#[test]
fn a_needed_library_that_is_nowhere_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("libnowhere.so");
    let empty = Command::new("cc")
        .args(["-shared", "-x", "c", "/dev/null", "-o"])
        .arg(&nowhere)
        .status();
    assert!(empty.unwrap().success());
    let search = format!("-L{}", folder.path().display());
    let code = c_plugin::Code {
        flags: &["-Wl,--no-as-needed", &search, "-lnowhere"],
        ..Default::default()
    };
    let plugin = c_plugin::build(folder.path(), "needy", &code);
    fs::remove_file(&nowhere).unwrap();
    let told = json(&inspect(&plugin, &["--json"]));
    let needed = told["needed"].as_array().unwrap();
    let nowhere = needed.iter().find(|one| one["name"] == "libnowhere.so");
    assert_eq!(nowhere.unwrap()["found"], false, "{told}");
    let text = inspect(&plugin, &[]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("libnowhere.so (not found)"), "{text}");
}

#[test]
fn what_is_no_plugin_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = c_plugin::build(folder.path(), "good", &c_plugin::Code::default());
    let good = fs::read(&plugin).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    assert_one_error(&folder.path().join("none.so"), "no such file");
    assert_one_error(&write("text.so", b"int main;\n"), "as a shared library");
    assert_one_error(&write("empty.so", b""), "to its end");
    let mut other = good.clone();
    other[18] = 8;
    assert_one_error(&write("machine.so", &other), "on this machine");
    let half = &good[..good.len() / 2];
    assert_one_error(&write("half.so", half), "to its end");
    assert_one_error(folder.path(), "which is a folder");
    let pipe = folder.path().join("pipe.so");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    assert_one_error(&pipe, "which is a pipe");
    let plain = folder.path().join("plain.so");
    let built = Command::new("cc")
        .args(["-shared", "-x", "c", "/dev/null", "-o"])
        .arg(&plain)
        .status();
    assert!(built.unwrap().success());
    assert_one_error(&plain, "`.crossdock`");
    let shared = write("shared.so", &good);
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o666)).unwrap();
    assert_one_error(&shared, "trust the plugin");
}

#[test]
fn a_plugin_of_another_major_version_is_told_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = c_plugin::build(folder.path(), "old", &c_plugin::Code::default());
    let mut bytes = fs::read(&plugin).unwrap();
    let at = bytes
        .windows(7)
        .position(|part| part == b"abi=1.0")
        .unwrap();
    bytes[at + 4] = b'9';
    fs::write(&plugin, bytes).unwrap();
    let output = inspect(&plugin, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["abi"], "9.0", "{told}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("of ABI 9.0 in a host of ABI 1"), "{text}");
}
