//! Texts of others on a terminal: names of files and members, what plugins say of themselves and log.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::{Command, Output},
};

use crate::{
    c_plugin,
    program::{crossdock, err, npy, npz, out, set_mode},
};

/// Moves the cursor up, says that it is a window's title, turns the line around, and more.
const NASTY: &str = "x\u{1b}[1A\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}y";

/// Nothing of it steers a terminal, and it is told all the same.
fn harmless(line: &str, output: &Output) {
    let text = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    let steers = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: Vec<char> = text.chars().filter(|c| steers(*c)).collect();
    assert!(found.is_empty(), "{line}: {found:?} in {text}");
    assert!(
        text.contains("\\u{9b}") || text.contains("\\u009b"),
        "{line}: {text}"
    );
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    harmless(&format!("{command:?}"), &output);
    output
}

#[test]
fn names_of_files_and_members_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join(NASTY);
    fs::create_dir(&inside).unwrap();
    let at = |name: &str| inside.join(name);
    let array = npy("4, 6", "False", &[7; 96]);
    fs::write(at("a.npy"), &array).unwrap();
    npz(&at("z.npz"), &[(&format!("{NASTY}.npy"), &array)]);
    fs::write(at("bad.npy"), "text").unwrap();
    for name in ["a.npy", "z.npz", "bad.npy", "gone.npy"] {
        run(crossdock(&["copy", "--to", "cpu:0"]).arg(at(name)));
        run(crossdock(&["copy", "--to", "cpu:0", "--out"])
            .arg(at("out"))
            .arg(at(name)));
    }
    let page = at("page.html");
    let mut matrix = crossdock(&["matrix", "--json", "-", "--html"]);
    run(matrix.arg(&page).arg(at("z.npz")));
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains(['\u{1b}', '\u{202e}']) && page.contains("\\u{202e}"));
    run(crossdock(&["matrix", "--html"])
        .arg(at("p.html"))
        .arg(at("z.npz")));
    run(crossdock(&["conform"]).arg(at("gone.so")));
    run(crossdock(&["devices", "--plugin"]).arg(at("gone.so")));
    run(crossdock(&["doctor", "--plugin"]).arg(at("gone.so")));
    run(crossdock(&["doctor", "--json", "--plugin"]).arg(at("bad.npy")));
}

#[test]
fn words_of_the_command_line_are_shown_escaped() {
    for line in [
        &[NASTY][..],
        &["devices", NASTY],
        &["route", NASTY, "cpu"],
        &["route", "--shape", NASTY],
    ] {
        run(&mut crossdock(line));
    }
    run(&mut crossdock(&["conform", "builtin", "--case", NASTY]));
    run(crossdock(&["devices"]).env("CROSSDOCK_LOG", NASTY));
    run(crossdock(&["route", "cpu", "cpu"]).env("CROSSDOCK_LAYERS", NASTY));
}

#[test]
fn what_a_plugin_says_is_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let array = folder.path().join("a.npy");
    fs::write(&array, npy("4, 6", "False", &[7; 96])).unwrap();
    let array = array.to_str().unwrap().to_owned();
    let bytes: String = NASTY.bytes().map(|byte| format!("\\{byte:03o}")).collect();
    let log = format!(
        "if (host && host->log) host->log(host->context, 1, xd_plugin_text(\"a{bytes}\"), xd_plugin_text(\"{bytes}\\nerror: b\"));"
    );
    let name = format!(
        "if (out) {{ memset(out, 0, sizeof *out); out->dl_type = EXT_DEV; strcpy((char *)out->name, \"{bytes}\"); out->total_memory = 1024; return XD_OK; }}"
    );
    let absent = format!(
        "static const char d[] = \"{bytes}\"; memset(out, 0, sizeof *out); out->state = XD_PROBE_ABSENT; strcpy((char *)out->detail, d); return XD_OK;"
    );
    let plugins = [
        ("log", ("ext_open", log.as_str())),
        ("name", ("ext_device_info", &name)),
        ("absent", ("ext_probe", &absent)),
        (
            "fails",
            (
                "ext_allocate",
                &format!("return xd_plugin_fail(XD_VENDOR, \"{bytes}\", \"{bytes}\", error);"),
            ),
        ),
    ];
    for (title, first_in) in plugins {
        let code = c_plugin::Code {
            first_in,
            ..c_plugin::Code::default()
        };
        let plugin = c_plugin::build(folder.path(), title, &code);
        let lines: &[&[&str]] = match title {
            "log" => &[&["devices"]],
            "fails" => &[&["copy", "--to", "ext_dev", &array]],
            _ => &[
                &["devices"],
                &["devices", "--json"],
                &["doctor"],
                &["doctor", "--json"],
            ],
        };
        for line in lines {
            let mut command = crossdock(line);
            let output = run(command.arg("--plugin").arg(&plugin));
            assert!(!err(&output).contains("\nerror: b"), "{}", err(&output));
        }
    }
}

#[test]
fn what_the_file_of_a_plugin_says_is_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [&*format!("-Wl,-rpath,/opt/{NASTY}")];
    let code = c_plugin::Code {
        flags: &flags,
        ..c_plugin::Code::default()
    };
    let plugin = c_plugin::build(folder.path(), "paths", &code);
    run(crossdock(&["doctor", "--plugin"]).arg(&plugin));
    // What it says of itself is read without running it: the vendor's name as three marks.
    let mut bytes = fs::read(&plugin).unwrap();
    let at = bytes
        .windows(16)
        .position(|part| part == b"vendor=crossdock")
        .unwrap();
    bytes[at + 7..at + 16].copy_from_slice("\u{202e}\u{2066}\u{200f}".as_bytes());
    fs::write(&plugin, bytes).unwrap();
    for subcommand in ["devices", "doctor"] {
        let mut command = crossdock(&[subcommand, "--json", "--plugin"]);
        let output = command.arg(&plugin).output().unwrap();
        assert!(
            out(&output).contains("\\u202e\\u2066\\u200f"),
            "{}",
            out(&output)
        );
    }
}

#[test]
fn the_explanation_of_a_python_is_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let environment = folder.path().join(NASTY);
    fs::create_dir_all(environment.join("bin")).unwrap();
    let python = environment.join("bin/python3");
    fs::write(
        &python,
        format!("#!/bin/sh\nprintf '%s' '{NASTY}'\nexit 1\n"),
    )
    .unwrap();
    set_mode(&python, 0o755);
    for line in [&["run", "--explain"][..], &["run", "-c", "pass"]] {
        let mut command = crossdock(line);
        run(command
            .env("PATH", "")
            .env("CROSSDOCK_PYTHON", &environment));
        let mut command = crossdock(line);
        run(command
            .env("PATH", "")
            .env("VIRTUAL_ENV", &environment)
            .current_dir(&environment));
    }
}

#[test]
fn json_tells_paths_that_are_no_utf8() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join(OsStr::from_bytes(b"b\xffad"));
    fs::create_dir(&inside).unwrap();
    let plugin = c_plugin::build(&inside, "mine", &c_plugin::Code::default());
    let copy = inside.join("copy.so");
    fs::copy(&plugin, &copy).unwrap();
    for subcommand in ["devices", "doctor"] {
        let mut command = crossdock(&[subcommand, "--json", "--plugin"]);
        command.arg(&plugin).arg("--plugin").arg(&copy);
        let output = command.output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{subcommand}: {}",
            err(&output)
        );
        let report: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        let paths = report["plugins"].as_array().unwrap().iter();
        let paths: Vec<_> = paths.filter_map(|plugin| plugin["path"].as_str()).collect();
        assert!(
            paths.iter().any(|path| path.contains("b\u{fffd}ad")),
            "{report}"
        );
    }
    let array = inside.join(OsStr::from_bytes(b"a\xff.npy"));
    fs::write(&array, npy("4, 6", "False", &[7; 96])).unwrap();
    let output = crossdock(&["matrix", "--json", "-"])
        .arg(&array)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let mut command = crossdock(&["conform", "--json", "--level", "core"]);
    let output = command.arg(Path::new(&plugin)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}
