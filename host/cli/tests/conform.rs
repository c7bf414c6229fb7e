//! `conform` on plugins that crash, hang and print: each case that meets it fails, the others run.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

#[path = "shared/c_plugin.rs"]
mod c_plugin;

/// The C plugin with something done first whenever it is asked for its memory.
fn build(folder: &Path, code: &str) -> PathBuf {
    build_with(folder, ("ext_memory_info", code))
}

/// The C plugin with something done first in one of its functions.
fn build_with(folder: &Path, first_in: (&str, &str)) -> PathBuf {
    let code = c_plugin::Code {
        first_in,
        ..c_plugin::Code::default()
    };
    c_plugin::build(folder, "bad", &code)
}

fn conform(plugin: &Path, more: &[&str]) -> Output {
    conform_at("core", plugin, more)
}

fn conform_at(level: &str, plugin: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .arg("conform")
        .arg(plugin)
        .args(["--level", level, "--json", "--quiet"])
        .args(more)
        .env("CROSSDOCK_CASE_LIMIT_MS", "3000")
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap()
}

/// The names of the cases that failed, each with why.
fn failures(output: &Output) -> Vec<(String, String)> {
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = reports[0]["cases"].as_array().unwrap().iter();
    let failed = cases.filter(|case| case["outcome"] == "failed");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    failed
        .map(|case| (text(&case["name"]), text(&case["why"])))
        .collect()
}

fn count(output: &Output) -> usize {
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    reports[0]["cases"].as_array().unwrap().len()
}

#[test]
fn a_crash_fails_the_cases_that_meet_it_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let good = conform(&build(folder.path(), ""), &[]);
    assert_eq!(
        good.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&good.stderr)
    );
    let bad = conform(&build(folder.path(), "abort();"), &[]);
    assert_eq!(bad.status.code(), Some(1));
    let failed = failures(&bad);
    assert!(!failed.is_empty() && failed.len() < 5, "{failed:?}");
    assert!(
        failed.iter().all(|(_, why)| why.contains("SIGABRT")),
        "{failed:?}"
    );
    assert_eq!(count(&bad), count(&good));
}

#[test]
fn an_exit_without_a_failure_fails_the_case_that_was_running() {
    let folder = tempfile::tempdir().unwrap();
    let good = conform(&build(folder.path(), ""), &[]);
    let exits = conform(
        &build_with(folder.path(), ("ext_allocate", "_exit(0);")),
        &[],
    );
    let failed = failures(&exits);
    assert_eq!(exits.status.code(), Some(1), "{failed:?}");
    assert!(!failed.is_empty());
    let says = "it ended the process with code 0";
    assert!(
        failed.iter().all(|(_, why)| why.contains(says)),
        "{failed:?}"
    );
    assert_eq!(count(&exits), count(&good));
}

#[test]
fn an_exit_before_the_final_word_is_an_error_though_all_cases_passed() {
    let folder = tempfile::tempdir().unwrap();
    let output = conform(&build_with(folder.path(), ("ext_close", "_exit(0);")), &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("it ended the process with code 0"), "{told}");
}

#[test]
fn a_case_whose_word_is_spoilt_is_a_failure_and_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let good = conform(&build(folder.path(), ""), &[]);
    // Between the words of the child, which stand in a pipe.
    let spoils = "for (int i = 3; i < 64; i++) if (write(i, \"noise\", 5) < 0) continue;";
    let bad = conform(&build(folder.path(), spoils), &[]);
    let failed = failures(&bad);
    assert_eq!(bad.status.code(), Some(1));
    assert!(!failed.is_empty());
    assert!(
        failed.iter().all(|(_, why)| why.contains("no word came")),
        "{failed:?}"
    );
    assert_eq!(count(&bad), count(&good));
}

#[test]
fn a_process_that_a_case_leaves_behind_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    // One that stays in the child's group, and one that left it and would outlive all of it.
    let stays = "alarm(60); pause();";
    let leaves = "setsid(); close(1); close(2); alarm(60); pause();";
    for behind in [stays, leaves] {
        let code = format!("if (!fork()) {{ {behind} _exit(0); }}");
        let output = conform(&build(folder.path(), &code), &[]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("left processes running"), "{behind}: {told}");
        let failed = failures(&output);
        let names: Vec<_> = failed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["the_plugin_ends_its_processes"], "{behind}: {told}");
    }
}

#[test]
fn words_that_look_like_options_are_passed_on_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    fs::rename(build(folder.path(), ""), folder.path().join("-x.so")).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
        command.args(words).current_dir(folder.path());
        command.env_remove("CROSSDOCK_PLUGIN_PATH");
        let output = command.env("CROSSDOCK_COSTS", "off").output().unwrap();
        let said = [&output.stdout, &output.stderr];
        let said = said.map(|bytes| String::from_utf8_lossy(bytes)).concat();
        (output.status.code(), said)
    };
    for words in [
        &["conform", "--case", "allocat", "--", "-x.so"][..],
        &[
            "conform",
            "--case",
            "allocat",
            "--in-process",
            "--",
            "-x.so",
        ],
        &["matrix", "--route=best", "--plugin=-x.so"],
        &["doctor", "--plugin=-x.so"],
    ] {
        let (code, said) = run(words);
        assert_eq!(code, Some(0), "{words:?}: {said}");
    }
    let (code, said) = run(&["conform", "builtin", "--case=-x"]);
    assert!(
        code == Some(1) && said.contains("find the case `-x`"),
        "{said}"
    );
    // The command in a hint can be pasted.
    let (_, said) = run(&["conform", "--require", "cuda", "--", "-x.so"]);
    assert!(said.contains("--plugin './-x.so'"), "{said}");
}

#[test]
fn a_hang_ends_after_its_limit_and_what_is_printed_does_not_mix_with_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let names = failures(&conform(&build(folder.path(), "abort();"), &[]));
    let hangs = "puts(\"noise\"); fflush(stdout); for (;;) pause();";
    let output = conform(&build(folder.path(), hangs), &["--case", &names[0].0]);
    let failed = failures(&output);
    let why = &failed[0].1;
    assert!(why.contains("no answer within 3 s"), "{why}");
    let file = folder.path().join("libcrossdock_plugin_bad.so");
    let (file, name) = (file.display(), &names[0].0);
    let shows = format!("`crossdock conform '{file}' --in-process --case {name}` in a debugger");
    assert!(why.contains(&shows), "{why}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("noise"));
}

#[test]
fn known_failures_are_excused_and_a_list_that_is_out_of_date_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "return XD_VENDOR;");
    let names: Vec<String> = failures(&conform(&plugin, &[]))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let list = folder.path().join("known.txt");
    let option = ["--known-failures", list.to_str().unwrap()];
    fs::write(
        &list,
        format!("# a driver that says no\n{}  # always\n", names.join("\n")),
    )
    .unwrap();
    assert_eq!(conform(&plugin, &option).status.code(), Some(0));
    let stale = conform(&build(folder.path(), ""), &option);
    assert_eq!(stale.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stale.stderr).contains("it passes"));
    fs::write(&list, "no_such_case\n").unwrap();
    let unknown = conform(&plugin, &option);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no case has this name"));
}

#[test]
fn a_plugin_that_cannot_be_loaded_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libcrossdock_plugin_text.so");
    fs::write(&file, "text").unwrap();
    for more in [&[][..], &["--in-process"]] {
        let output = conform(&file, more);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert_eq!(told.matches("error:").count(), 1, "{told}");
    }
}

#[test]
fn behind_a_closed_pipe_the_cases_run_the_report_is_written_and_the_verdict_stays() {
    let folder = tempfile::tempdir().unwrap();
    for (code, verdict, failures) in [("", 0, 0), ("return XD_VENDOR;", 1, 1)] {
        let plugin = build(folder.path(), code);
        let report = folder.path().join("report.xml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
        command
            .arg("conform")
            .arg(&plugin)
            .args(["--level", "core"]);
        command.arg("--junit").arg(&report);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(verdict), "{code}");
        let text = fs::read_to_string(&report).unwrap();
        assert!(text.matches("<testcase ").count() > 40, "{text}");
        assert!(text.matches("<failure ").count() >= failures, "{text}");
        fs::remove_file(report).unwrap();
    }
}

#[test]
fn each_case_is_printed_as_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    command.arg("conform").arg(&plugin).arg("--quiet");
    let whole = command
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap();
    let whole = String::from_utf8(whole.stdout).unwrap();
    let [heading, first, .., summary] = whole.lines().collect::<Vec<_>>()[..] else {
        panic!("{whole}")
    };
    assert!(
        heading.starts_with("plugin `") && first.contains(" passed "),
        "{whole}"
    );
    assert!(summary.ends_with(" failed"), "{whole}");
    // The memory of the second case hangs, so the lines before it came without it.
    let second = "static int calls; if (++calls > 1) for (;;) pause();";
    let hangs = build_with(folder.path(), ("ext_allocate", second));
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    let child = command.arg("conform").arg(&hangs).arg("--quiet");
    let child = child.env_remove("CROSSDOCK_PLUGIN_PATH");
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = [(); 2].map(|()| lines.next().unwrap().unwrap());
    let is_over = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_over, "{told:?}");
    assert!(
        told[0].starts_with("plugin `") && told[1].contains(" ms"),
        "{told:?}"
    );
}

/// Why the one case failed whose name has this text, with this code first in one function of the plugin.
fn why_ending_failed(case: &str, first_in: (&str, &str)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build_with(folder.path(), first_in);
    let output = conform_at("full", &plugin, &["--case", case]);
    let mut failed = failures(&output);
    assert_eq!(
        (output.status.code(), failed.len()),
        (Some(1), 1),
        "{failed:?}"
    );
    failed.remove(0).1
}

#[test]
fn a_process_that_does_not_exit_well_fails_the_case_about_its_exit() {
    let case = "a_process_exits_well";
    let faults = [
        ("abort();", "SIGABRT"),
        ("_exit(0);", "ended the process with code 0"),
        ("for (;;) pause();", "does not come to its end"),
    ];
    for (code, says) in faults {
        let why = why_ending_failed(case, ("ext_at_exit", code));
        assert!(why.contains(says), "{code}: {why}");
    }
}

#[test]
fn a_function_that_begins_after_at_exit_fails_the_case_about_the_exit() {
    let folder = tempfile::tempdir().unwrap();
    let case = ["--case", "a_process_exits_well"];
    let source = format!(
        "#include \"{}\"\n",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plugins/runs_on.c")
    );
    let stops = c_plugin::compile(folder.path(), "stops", &source, &["-DSTOPS"]);
    let output = conform_at("full", &stops, &case);
    assert_eq!((output.status.code(), failures(&output)), (Some(0), vec![]));
    let goes_on = c_plugin::compile(folder.path(), "goes_on", &source, &[]);
    let failed = failures(&conform_at("full", &goes_on, &case));
    let says = "a function of the host began after `at_exit` had returned";
    assert!(
        failed.len() == 1 && failed[0].1.contains(says),
        "{failed:?}"
    );
}

#[test]
fn a_child_of_a_fork_that_has_its_parents_state_fails_the_case_about_forks() {
    let case = "a_child_of_a_fork";
    let faults = [
        ("abort();", "ended by signal 6"),
        ("_exit(0);", "was ended with code 0"),
        // Open in the child, as it was in the parent.
        ("return;", "CONFLICT"),
        // As a thread of the parent's would have left it.
        ("is_open = 0; pthread_mutex_lock(&lock); return;", "hangs"),
    ];
    for (code, says) in faults {
        let why = why_ending_failed(case, ("ext_at_fork_child", code));
        assert!(why.contains(says), "{code}: {why}");
    }
}

#[test]
fn the_cases_about_the_end_of_a_process_pass_on_a_plugin_that_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "");
    for case in ["a_process_exits_well", "a_child_of_a_fork"] {
        let output = conform_at("full", &plugin, &["--case", case]);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told[0]["cases"][0]["outcome"], "passed", "{told}");
    }
}

/// The C plugin without a device here.
fn build_absent(folder: &Path) -> PathBuf {
    let absent = "memset(out, 0, sizeof *out); out->state = XD_PROBE_ABSENT; \
                  strcpy((char *)out->detail, \"looked for libmade_up.so & found none\"); \
                  return XD_OK;";
    build_with(folder, ("ext_probe", absent))
}

#[test]
fn an_absent_device_is_one_skipped_case_and_no_failure_unless_it_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build_absent(folder.path());
    let junit = folder.path().join("junit.xml");
    let junit_option = ["--junit", junit.to_str().unwrap()];
    for more in [&[][..], &["--in-process"]] {
        let output = conform(&plugin, &[&junit_option[..], more].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*told), (Some(0), ""));
        let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(reports[0]["cases"].as_array().unwrap().len(), 1);
        assert_eq!(reports[0]["cases"][0]["outcome"], "skipped", "{reports}");
        let text = fs::read_to_string(&junit).unwrap();
        for part in ["tests=\"1\"", "skipped=\"1\"", "libmade_up.so &amp; found"] {
            assert!(text.contains(part), "{text} has no {part}");
        }
    }
    let output = conform(&plugin, &["--require", "ext_dev"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("of type ext_dev is here"), "{told}");
    let good = build(folder.path(), "");
    let case = ["--require", "ext_dev", "--case", "allocat"];
    assert_eq!(conform(&good, &case).status.code(), Some(0));
}

#[test]
fn a_folder_that_is_not_there_is_told_before_a_case_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let marks = format!("fclose(fopen(\"{}\", \"w\"));", mark.display());
    let plugin = build(folder.path(), &marks);
    let nowhere = folder.path().join("none/junit.xml");
    let output = conform(&plugin, &["--junit", nowhere.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("none/junit.xml"), "{told}");
    assert!(!mark.exists(), "a case ran");
}

#[test]
fn failures_are_told_again_at_the_end_and_skips_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let run = |plugin: &Path, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
        command.arg("conform").arg(plugin).arg("--quiet").args(more);
        let output = command.env_remove("CROSSDOCK_PLUGIN_PATH").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let good = build(folder.path(), "");
    assert!(!run(&good, &[]).contains("  skipped  "));
    assert!(run(&good, &["-v"]).contains("  skipped  "));
    let absent = run(&build_absent(folder.path()), &[]);
    assert!(absent.contains("looked for libmade_up.so"), "{absent}");
    let text = run(&build(folder.path(), "abort();"), &["--level", "core"]);
    let (above, below) = text.split_once("\nfailed on plugin `ext_dev`").unwrap();
    let failed = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("  FAILED"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!failed(above).is_empty());
    assert_eq!(failed(above), failed(below));
}
