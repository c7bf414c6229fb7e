//! `matrix` as CI uses it: routes that must be there, pairs that crash or hang, summaries.
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

#[path = "shared/c_plugin.rs"]
mod c_plugin;

fn matrix(plugin: Option<&Path>, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    command.arg("matrix").args(options);
    if let Some(plugin) = plugin {
        command.arg("--plugin").arg(plugin);
    }
    command
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .env("CROSSDOCK_COSTS", "off");
    command
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The C plugin, whose first copy of all processes does this.
fn once(folder: &Path, does: &str) -> PathBuf {
    let mark = folder.join("mark");
    let mark = mark.display();
    let first =
        format!("if (access(\"{mark}\", F_OK)) {{ fclose(fopen(\"{mark}\", \"w\")); {does} }}");
    let code = c_plugin::Code {
        first_in: ("ext_copy", &first),
        ..Default::default()
    };
    c_plugin::build(folder, "once", &code)
}

fn assert_one_pair_is(outcome: &str, does: &str, why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let plugin = once(folder.path(), does);
    let page = folder.path().join("page.html");
    let options = [
        "--json",
        "-",
        "--limit",
        "10",
        "--route",
        "best",
        "--html",
        page.to_str().unwrap(),
    ];
    let output = matrix(Some(&plugin), &options).output().unwrap();
    let told = err(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("error: move ").count(), 1, "{told}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pairs = value["pairs"].as_array().unwrap();
    let outcomes: Vec<_> = pairs.iter().map(|pair| pair["outcome"].as_str()).collect();
    let told_times: Vec<_> = pairs.iter().map(|pair| pair["seconds"].is_f64()).collect();
    assert_eq!(told_times, [true, false, true, true], "{value}");
    let verified = Some("verified");
    let wanted = [verified, Some(outcome), verified, verified];
    assert_eq!(outcomes, wanted, "{value}");
    assert!(pairs[1]["why"].as_str().unwrap().contains(why), "{value}");
    let page = fs::read_to_string(page).unwrap();
    let cell = format!("<b>{}</b>", outcome.to_uppercase());
    assert!(page.contains(&cell), "{page}");
    assert!(!page.contains("0.0 us"), "{page}");
    // The plugins of both devices, by words for a shell.
    let hint = format!(
        "try: run `crossdock conform builtin` and `crossdock conform '{}'`\n",
        plugin.display()
    );
    assert!(told.contains(&hint), "{told}");
}

#[test]
fn a_crash_is_the_result_of_its_pair_and_the_others_run() {
    assert_one_pair_is("crashed", "abort();", "SIGABRT");
}

#[test]
fn an_exit_is_the_result_of_its_pair_and_the_others_run() {
    assert_one_pair_is("crashed", "_exit(0);", "with code 0");
}

#[test]
fn a_hang_is_the_result_of_its_pair_and_the_others_run() {
    assert_one_pair_is("hung", "for (;;) pause();", "no answer within 10 s");
}

#[test]
fn behind_a_closed_pipe_all_pairs_run_and_the_verdict_stays() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("matrix.json");
    let code = c_plugin::Code {
        first_in: ("ext_copy", "return XD_VENDOR;"),
        ..Default::default()
    };
    let good = c_plugin::build(folder.path(), "good", &c_plugin::Code::default());
    let bad = c_plugin::build(folder.path(), "bad", &code);
    for (plugin, verdict) in [(good, 0), (bad, 1)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = matrix(Some(&plugin), &["--json", json.to_str().unwrap()]);
        let output = command.stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(verdict), "{}", err(&output));
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(value["pairs"].as_array().unwrap().len(), 4);
        fs::remove_file(&json).unwrap();
    }
}

#[test]
fn a_crash_before_the_first_pair_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let code = c_plugin::Code {
        at_load: "abort();",
        ..Default::default()
    };
    let plugin = c_plugin::build(folder.path(), "bad", &code);
    let output = matrix(Some(&plugin), &[]).output().unwrap();
    let told = err(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("error: ").count(), 1, "{told}");
    assert!(
        told.contains("SIGABRT") && told.contains("crossdock doctor"),
        "{told}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_route_that_is_required_must_be_there_and_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = c_plugin::build(folder.path(), "good", &c_plugin::Code::default());
    let run = |options: &[&str]| matrix(Some(&plugin), options).output().unwrap();
    for met in [
        &["--require-route", "cpu:0,ext_dev:0"][..],
        &["--require-route", "cpu:0,cpu:0=alias"],
        &[
            "--require-route",
            "cpu:0,ext_dev:0=direct",
            "--require-route",
            "cpu:0,cpu:0=direct",
        ],
    ] {
        let output = run(met);
        assert_eq!(output.status.code(), Some(0), "{met:?}: {}", err(&output));
    }
    for (missing, part) in [
        (
            &["--require-route", "cpu:0,cuda:0"][..],
            "the devices here are cpu:0, ext_dev:0",
        ),
        (
            &["--require-route", "cpu:0,ext_dev:0=alias"],
            "the route that was taken is direct",
        ),
        (
            &[
                "--require-route",
                "cpu:0,ext_dev:0=direct",
                "--route",
                "staged",
            ],
            "from cpu:0 to ext_dev:0",
        ),
    ] {
        let output = run(missing);
        let told = err(&output);
        assert_eq!(output.status.code(), Some(1), "{missing:?}: {told}");
        assert_eq!(told.matches("error: ").count(), 1, "{told}");
        assert!(
            told.contains("`--require-route`") && told.contains(part),
            "{told}"
        );
    }
    for wrong in ["cpu:0", "cpu:0,nonsense:0", "cpu:0,cpu:0=staged"] {
        let output = run(&["--require-route", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", err(&output));
    }
}

#[test]
fn a_summary_for_ci_has_a_row_for_each_pair() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = once(folder.path(), "abort();");
    let summary = folder.path().join("summary.md");
    let options = ["--md", summary.to_str().unwrap()];
    let output = matrix(Some(&plugin), &options).output().unwrap();
    let text = fs::read_to_string(summary).unwrap();
    assert_eq!(text.matches("\n| cpu:0 |").count(), 2, "{text}");
    assert!(
        text.contains("| **crashed** |") && text.contains("SIGABRT"),
        "{text}"
    );
    // A log is no terminal: where the work is stands in lines.
    assert!(
        err(&output).contains("2/4 cpu:0 -> ext"),
        "{}",
        err(&output)
    );
    let quiet = matrix(None, &["--quiet"]).output().unwrap();
    assert_eq!(err(&quiet), "");
}

#[test]
fn a_page_has_each_pair_by_the_best_a_direct_and_a_staged_route() {
    let folder = tempfile::tempdir().unwrap();
    let [page, summary, json] = ["page.html", "summary.md", "matrix.json"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let run = |options: &[&str]| {
        let output = matrix(None, options).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = run(&["--html", &page, "--md", &summary, "--json", &json]);
    let value: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let told = |name: &str| {
        let pairs = value["pairs"].as_array().unwrap();
        let told: Vec<_> = pairs.iter().map(|pair| pair[name].clone()).collect();
        serde_json::Value::from(told)
    };
    let all = serde_json::json!(["best", "direct", "staged"]);
    assert_eq!((&value["asked"], &told("asked")), (&all, &all));
    assert_eq!(
        told("route"),
        serde_json::json!(["alias", "direct", "staged"])
    );
    let (page_text, summary) = (
        fs::read_to_string(&page).unwrap(),
        fs::read_to_string(summary).unwrap(),
    );
    for asked in ["best", "direct", "staged"] {
        let of_it = format!("by route {asked}");
        assert_eq!(printed.matches(&of_it).count(), 1, "{printed}");
        assert_eq!(summary.matches(&of_it).count(), 1, "{summary}");
        let section = format!("<h2>By route {asked}</h2><svg");
        assert_eq!(page_text.matches(&section).count(), 1, "{page_text}");
    }
    // What is asked for counts, each route once.
    run(&["--html", &page, "--route", "staged,direct,staged"]);
    let page = fs::read_to_string(page).unwrap();
    let (staged, direct) = (page.find("By route staged"), page.find("By route direct"));
    assert!(staged.is_some() && staged < direct && !page.contains("By route best"));
}

#[test]
fn results_are_printed_and_written_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = once(folder.path(), "for (;;) pause();");
    let json = folder.path().join("matrix.json");
    let options = ["--limit", "600", "--json", json.to_str().unwrap()];
    let mut running = matrix(Some(&plugin), &options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The second pair never ends, and the first one is told all the same.
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("2/4 "));
    let mut rows = BufReader::new(running.stdout.take().unwrap()).lines();
    let row = rows.find(|line| line.as_ref().unwrap().starts_with("cpu:0 "));
    assert!(row.unwrap().unwrap().contains("alias"));
    let value: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    // What is to come stands there as what was not tried, if this is the last that is written.
    let pairs = value["pairs"].as_array().unwrap();
    let outcomes: Vec<_> = pairs.iter().map(|pair| pair["outcome"].as_str()).collect();
    let untried = Some("untried");
    assert_eq!(outcomes, [Some("verified"), untried, untried, untried]);
    running.kill().unwrap();
    running.wait().unwrap();
}
