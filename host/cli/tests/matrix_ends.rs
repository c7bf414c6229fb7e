//! What `matrix` leaves where it could not do all of its work: files that say so.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

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

/// What came of it: the output, and the files in JSON, in Markdown and in HTML.
struct Ended {
    output: Output,
    json: Value,
    markdown: String,
    page: String,
}

/// A small array, so that the time of a test is that of what it is about.
fn array(folder: &Path) -> PathBuf {
    let path = folder.join("array.npy");
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (64,), }";
    let header = format!("{header:117}\n");
    let bytes = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[7; 64]].concat();
    fs::write(&path, bytes).unwrap();
    path
}

fn matrix(plugin: &Path, more: &[&str]) -> Ended {
    let folder = plugin.parent().unwrap();
    let [json, markdown, page] = ["m.json", "m.md", "m.html"].map(|name| folder.join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    command
        .args(["matrix", "--quiet", "--route", "best"])
        .args(more);
    command.arg("--plugin").arg(plugin).arg(array(folder));
    command.arg("--json").arg(&json).arg("--md").arg(&markdown);
    command.arg("--html").arg(&page);
    command
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .env("CROSSDOCK_START_LIMIT_MS", "8000")
        .env("CROSSDOCK_COSTS", "off");
    let output = command.output().unwrap();
    Ended {
        output,
        json: serde_json::from_slice(&fs::read(json).unwrap()).unwrap(),
        markdown: fs::read_to_string(markdown).unwrap(),
        page: fs::read_to_string(page).unwrap(),
    }
}

impl Ended {
    fn told(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn outcomes(&self) -> Vec<&str> {
        let pairs = self.json["pairs"].as_array().unwrap().iter();
        pairs
            .map(|pair| pair["outcome"].as_str().unwrap())
            .collect()
    }

    /// Asserts that one error was told, on stderr and in each file.
    fn has_one_error(&self, why: &str) {
        let told = self.told();
        assert_eq!(self.output.status.code(), Some(1), "{told}");
        assert!(told.contains(why), "{told}");
        let problems = self.json["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0]["why"].as_str().unwrap().contains(why),
            "{problems:?}"
        );
        assert!(self.markdown.contains("**error**: "), "{}", self.markdown);
        assert!(self.page.contains("<h2>Wrong</h2>"), "{}", self.page);
    }
}

#[test]
fn a_limit_of_a_pair_is_none_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "ext_open", "sleep(2);");
    let ended = matrix(&plugin, &["--limit", "1", "--require", "ext_dev"]);
    assert_eq!(ended.output.status.code(), Some(0), "{}", ended.told());
    assert_eq!(ended.outcomes(), ["verified"; 4]);
    assert_eq!(ended.json["problems"].as_array().unwrap().len(), 0);
    assert!(!ended.markdown.contains("not tried"), "{}", ended.markdown);
}

#[test]
fn pairs_that_could_not_be_tried_are_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let mark = mark.display();
    // Once it was used it does not open any more.
    let code = c_plugin::Code {
        at_load: &format!("if (!access(\"{mark}\", F_OK)) for (;;) pause();"),
        first_in: (
            "ext_copy",
            &format!("fclose(fopen(\"{mark}\", \"w\")); abort();"),
        ),
        ..c_plugin::Code::default()
    };
    let plugin = c_plugin::build(folder.path(), "bad", &code);
    let ended = matrix(&plugin, &[]);
    ended.has_one_error("no answer within 8 s");
    let untried = "untried";
    assert_eq!(ended.outcomes(), ["verified", "crashed", untried, untried]);
    let told = ended.told();
    assert!(told.contains("error: load and open the plugins"), "{told}");
    let hint = format!("`crossdock doctor --plugin '{}'`", plugin.display());
    assert!(told.contains(&hint), "{told}");
    let mark = "2 of 4 pairs were not tried";
    assert!(ended.markdown.contains(mark), "{}", ended.markdown);
    assert!(ended.page.contains(mark), "{}", ended.page);
    assert_eq!(ended.page.matches("<b>UNTRIED</b>").count(), 2);
}

#[test]
fn what_ends_it_before_the_first_pair_is_in_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for (function, code, more, why) in [
        ("ext_probe", "abort();", &[][..], "SIGABRT"),
        (
            "ext_probe",
            "for (;;) pause();",
            &[],
            "no answer within 8 s",
        ),
        ("ext_open", "return XD_OOM_HOST;", &[], "OOM_HOST"),
        ("", "", &["--require", "cuda"], "asked for by `--require`"),
    ] {
        let ended = matrix(&build(folder.path(), function, code), more);
        ended.has_one_error(why);
        let told = ended.told();
        assert_eq!(told.matches("error: ").count(), 1, "{told}");
        assert!(told.contains("libcrossdock_plugin_bad.so"), "{told}");
        assert!(
            ended.markdown.contains("No pair was tried."),
            "{}",
            ended.markdown
        );
    }
}

#[test]
fn a_plugin_that_does_not_close_is_an_error_beside_all_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let ended = matrix(&build(folder.path(), "ext_close", "abort();"), &[]);
    ended.has_one_error("SIGABRT");
    assert!(
        ended.told().contains("error: close the plugins"),
        "{}",
        ended.told()
    );
    assert_eq!(ended.outcomes(), ["verified"; 4]);
}

#[test]
fn a_route_that_is_required_and_cannot_be_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    let ended = matrix(&plugin, &["--require-route", "cpu,cuda"]);
    ended.has_one_error("the devices here are cpu:0, ext_dev:0");
    assert_eq!(ended.outcomes(), ["untried"; 4]);
    let ended = matrix(&plugin, &["--require-route", "cpu,ext_dev=alias"]);
    ended.has_one_error("the route that was taken is direct");
    let command = "`crossdock route cpu:0 ext_dev:0 --plugin '";
    assert!(ended.told().contains(command), "{}", ended.told());
}

#[test]
fn a_wrong_copy_is_not_called_a_wrong_alias() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), "", "");
    let source = fs::read_to_string(folder.path().join("bad.c")).unwrap();
    let source = source.replace("(size_t)args->bytes)", "(size_t)args->bytes / 2)");
    let plugin = c_plugin::compile(folder.path(), "drops", &source, &[]);
    let ended = matrix(&plugin, &[]);
    assert_eq!(ended.outcomes()[0], "verified");
    let pairs = ended.json["pairs"].as_array().unwrap();
    let back = pairs[2]["why"].as_str().unwrap();
    assert!(back.contains("what is written to ext_dev:0"), "{pairs:#?}");
    assert!(!back.contains("alias"), "{back}");
}

#[test]
fn files_say_when_and_where_they_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    command.args(["matrix", "--quiet", "--md", "-"]);
    command
        .env("GITHUB_SHA", "0123abc")
        .current_dir(folder.path());
    let output = command.output().unwrap();
    let markdown = String::from_utf8(output.stdout).unwrap();
    assert!(
        markdown.starts_with("### Crossdock matrix, by route best\n"),
        "{markdown}"
    );
    for part in [" UTC on ", ", commit 0123abc, by crossdock "] {
        assert!(markdown.contains(part), "{markdown}");
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    let both = Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .args(["matrix", "--md", "-", "--json", "-"])
        .output();
    assert_eq!(both.unwrap().status.code(), Some(2));
}
