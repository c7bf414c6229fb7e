//! The report that `conform` writes for CI: nothing that goes wrong is left out of it, however the command ends.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

#[path = "shared/c_plugin.rs"]
mod c_plugin;

/// The C plugin with something done first in one of its functions.
fn build(folder: &Path, function: &str, code: &str) -> PathBuf {
    let code = c_plugin::Code {
        first_in: (function, code),
        ..c_plugin::Code::default()
    };
    c_plugin::build(folder, "bad", &code)
}

fn conform(plugin: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    command.arg("conform").arg(plugin).arg("--quiet").args(more);
    command
        .env("CROSSDOCK_START_LIMIT_MS", "8000")
        .env_remove("CROSSDOCK_PLUGIN_PATH");
    command
}

/// What came of it, and the report.
fn reported(plugin: &Path, more: &[&str]) -> (Output, String) {
    let file = plugin.with_extension("xml");
    let mut command = conform(plugin, &["--level", "core", "--junit"]);
    let output = command.arg(&file).args(more).output().unwrap();
    let report = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    (output, report)
}

/// The names of the cases of a report that failed.
fn failed(report: &str) -> Vec<&str> {
    let cases = report.split("<testcase ").skip(1);
    let failed = cases.filter(|case| case.contains("<failure "));
    failed
        .map(|case| {
            let (_, name) = case.split_once(" name=\"").unwrap();
            name.split('"').next().unwrap()
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_plugin_that_does_not_open_is_a_failure_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    for (function, code, says) in [
        ("ext_probe", "abort();", "SIGABRT"),
        ("ext_probe", "_exit(0);", "ended the process with code 0"),
        ("ext_probe", "for (;;) pause();", "no answer within 8 s"),
        ("ext_open", "return XD_OOM_HOST;", "OOM_HOST"),
    ] {
        let plugin = build(folder.path(), function, code);
        let (output, report) = reported(&plugin, &[]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{code}: {told}");
        assert_eq!(told.matches("error: ").count(), 1, "{code}: {told}");
        let printed = text(&output.stdout);
        assert_eq!(printed.matches("  FAILED").count(), 1, "{printed}");
        assert!(
            told.contains("libcrossdock_plugin_bad.so"),
            "{code}: {told}"
        );
        assert_eq!(failed(&report), ["the_plugin_opens"], "{report}");
        assert!(report.contains(says), "{code}: {report}");
        assert!(report.contains("classname=\"crossdock.bad:0\""), "{report}");
    }
}

#[test]
fn a_plugin_that_does_not_close_loses_no_case_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    for (code, says) in [
        ("abort();", "SIGABRT"),
        ("_exit(0);", "ended the process with code 0"),
        ("for (;;) pause();", "no answer within 3 s"),
    ] {
        let plugin = build(folder.path(), "ext_close", code);
        let (output, report) = reported(&plugin, &["--limit", "3"]);
        assert_eq!(output.status.code(), Some(1), "{code}");
        assert_eq!(failed(&report), ["the_plugin_closes"], "{report}");
        assert!(report.matches("<testcase ").count() > 40, "{report}");
        assert!(report.contains(says), "{code}: {report}");
        let printed = text(&output.stdout);
        assert!(printed.ends_with(" 1 failed\n"), "{code}: {printed}");
    }
}

#[test]
fn what_is_required_and_not_here_is_a_failure_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    let known = folder.path().join("known");
    fs::write(&known, "bytes_come_back_as_they_went\n").unwrap();
    let known = known.to_str().unwrap();
    for (option, name) in [
        (
            ["--require", "cuda"],
            "a_device_of_each_required_type_is_here",
        ),
        (["--known-failures", known], "each_known_failure_fails"),
        (
            ["--case", "none_has_it"],
            "a_case_has_the_name_that_is_asked_for",
        ),
    ] {
        let (output, report) = reported(&plugin, &option);
        assert_eq!(output.status.code(), Some(1), "{option:?}");
        assert_eq!(failed(&report), [name], "{report}");
    }
    assert_eq!(
        failed(&reported(&plugin, &["--require", "ext_dev"]).1),
        [""; 0]
    );
}

#[test]
fn all_devices_are_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let many = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plugins/many.c");
    let source = format!("#include \"{many}\"\n");
    let plugin = c_plugin::compile(folder.path(), "many", &source, &["-DMASK=\"0,1\""]);
    let (output, report) = reported(&plugin, &["--case", "memory_begins"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(report.matches("<testsuite ").count(), 2, "{report}");
    for class in [":0\" name=", ":1\" name="] {
        assert_eq!(report.matches(class).count(), 1, "{report}");
    }
    let mut files = fs::read_dir(folder.path()).unwrap();
    assert!(files.all(|file| !text(file.unwrap().file_name().as_encoded_bytes()).contains("xml")));
}

#[test]
fn a_job_that_is_ended_leaves_a_report_that_names_the_case_that_ran() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let marks = format!("fclose(fopen(\"{}\", \"w\"));", mark.display());
    let hangs = format!("{marks} for (;;) pause();");
    let plugin = build(folder.path(), "ext_copy", &hangs);
    let file = folder.path().join("report.xml");
    let mut command = conform(&plugin, &["--level", "core", "--junit"]);
    let mut running = command.arg(&file).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let has_most = || {
        let report = fs::read_to_string(&file).unwrap_or_default();
        report.matches("<testcase ").count() > 5
    };
    while !(mark.exists() && has_most()) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it did not begin"
        );
        thread::yield_now();
    }
    let id = running.id().to_string();
    let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
    assert!(sent.unwrap().success());
    running.wait().unwrap();
    let report = fs::read_to_string(&file).unwrap();
    assert_eq!(failed(&report).len(), 1, "{report}");
    assert!(report.contains("the command was ended while"), "{report}");
    assert!(report.matches("<testcase ").count() > 5, "{report}");
}

#[test]
fn a_crash_in_the_commands_own_process_leaves_a_report_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    for (function, around) in [("ext_copy", None), ("ext_close", Some("the_plugin_closes"))] {
        let plugin = build(folder.path(), function, "abort();");
        let (output, report) = reported(&plugin, &["--in-process"]);
        assert_eq!(output.status.code(), None, "{}", text(&output.stderr));
        let names = failed(&report);
        assert_eq!(names.len(), 1, "{report}");
        assert!(around.is_none_or(|name| names == [name]), "{report}");
        assert!(report.matches("<testcase ").count() > 5, "{report}");
    }
}

#[test]
fn a_case_that_does_not_end_well_has_its_time() {
    let folder = tempfile::tempdir().unwrap();
    for code in ["for (;;) pause();", "sleep(1); abort();"] {
        let plugin = build(folder.path(), "ext_copy", code);
        let only = ["--case", "bytes_come_back_as_they_went", "--limit", "2"];
        let output = conform(&plugin, &["--json"]).args(only).output().unwrap();
        let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let case = &reports[0]["cases"][0];
        assert_eq!(case["outcome"], "failed", "{reports}");
        assert!(case["seconds"].as_f64().unwrap() > 0.9, "{reports}");
    }
}

#[test]
fn a_report_on_stdout_is_all_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = conform(Path::new("builtin"), &["--level", "core", "--junit", "-"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let report = text(&output.stdout);
    assert!(
        report.starts_with("<?xml ") && report.ends_with("</testsuites>\n"),
        "{report}"
    );
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    let both = conform(Path::new("builtin"), &["--json", "--junit", "-"]).output();
    assert_eq!(both.unwrap().status.code(), Some(2));
}

#[test]
fn failures_begin_with_what_the_others_rest_on() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "ext_copy", "return XD_OK;");
    let output = conform(&plugin, &["--level", "core"]).output().unwrap();
    let printed = text(&output.stdout);
    let (_, again) = printed.split_once("\nfailed on plugin ").unwrap();
    let first = again.lines().nth(1).unwrap();
    assert!(first.contains(" bytes_come_back_as_they_went "), "{again}");
    assert!(!again.contains("contract: "), "{again}");
}
