//! `crossdock doctor`: every plugin probed in a process of its own, and what to do about each problem.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;
use crossdock::{
    Runtime,
    plugin_files::{self, Preflight},
};
use crossdock_sdk::shown::shell_word;
use serde::Serialize;

use crate::command::{
    probe::child::Answer,
    probe::command::{Probed, probe},
    probe::process,
};
use crate::{
    exit::Exit,
    failure::{Failure, Problem, one_line},
    globals::Globals,
    report::{BROKEN, PANICKED, PluginRow, Report},
    screen::{self, HEADING},
    session,
    text::Text,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
    /// Leave these variables to the plugins too, where those of the system, the loader, the vendors and
    /// Crossdock are not all that they need (repeatable).
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    env: Vec<OsString>,
}

/// The report, and how each file went.
#[derive(Debug, Serialize)]
struct Diagnosis {
    #[serde(flatten)]
    report: Report,
    files: Vec<FileRow>,
    /// The variables that no plugin had.
    cleared: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FileRow {
    path: String,
    /// `ready`, `absent`, `broken`, `duplicate`, or `refused` for all that never answered.
    state: String,
    /// The file that it is another name or copy of; then it was not probed.
    duplicate_of: Option<String>,
    /// What a person should know, though it refuses nothing.
    remarks: Vec<String>,
    /// What it printed, which is never shown whole.
    printed_bytes: u64,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    // Only what is built in is opened here; no file is loaded into this process.
    let built_in = Runtime::builder().search(false).open()?;
    let mut diagnosis = Diagnosis {
        report: Report::of(&built_in),
        files: Vec::new(),
        cleared: process::cleared(&arguments.env),
    };
    let mut seen = Vec::new();
    for path in candidates(globals)? {
        diagnosis.examine(path, &arguments.env, &mut seen);
    }
    let report = &mut diagnosis.report;
    report.list_absent();
    let broken = report
        .plugins
        .iter()
        .filter(|plugin| plugin.state == BROKEN);
    let mut problems: Vec<Problem> = broken
        .map(|plugin| {
            let at = plugin.path.as_ref().map(|path| format!(" `{path}`"));
            let what = format!("use plugin `{}`{}", plugin.name, at.unwrap_or_default());
            let hint = match (&plugin.path, plugin.detail == PANICKED) {
                (Some(path), true) => {
                    let file = shell_word(Path::new(path));
                    format!("run `crossdock conform {file}`, which tells of each hook")
                }
                _ => "repair or reinstall the driver that it names".to_owned(),
            };
            Problem::new(what, &plugin.detail, hint)
        })
        .collect();
    // The errors on stderr say it once; the text on stdout does not repeat them.
    problems.append(&mut report.refused.clone());
    if arguments.json {
        screen::json(&diagnosis)?;
    } else {
        let shown = std::mem::take(&mut report.refused);
        let mut text = report.text();
        text.append(remarks(&diagnosis.files));
        screen::result(text)?;
        diagnosis.report.refused = shown;
    }
    let count = diagnosis.cleared.len();
    if count > 0 && !diagnosis.files.is_empty() {
        let names = "`--json` has the names, `--env NAME` keeps one";
        let told = format!("probed without {count} variables of the environment: {names}");
        screen::talk(globals.quiet, &told);
    }
    for problem in &problems {
        screen::problem(problem);
    }
    let here: Vec<String> = diagnosis
        .report
        .devices
        .iter()
        .map(|device| ty(&device.id))
        .collect();
    session::require(globals, &here)?;
    Ok(Exit::broken_if(!problems.is_empty()))
}

impl Diagnosis {
    /// Looks at a file, and probes it unless it is one that was seen before.
    fn examine(&mut self, path: PathBuf, kept: &[OsString], seen: &mut Vec<(PathBuf, Preflight)>) {
        let Ok(found) = plugin_files::preflight(&path, &plugin_files::Environment::of_process())
        else {
            // Who loads it tells why it is refused, in the same words.
            return self.add(path.clone(), Vec::new(), probe(&path, kept));
        };
        let first = seen.iter().find(|(_, first)| first.is_duplicate_of(&found));
        if let Some((first, _)) = first {
            return self.files.push(FileRow {
                path: path.display().to_string(),
                state: "duplicate".to_owned(),
                duplicate_of: Some(first.display().to_string()),
                remarks: Vec::new(),
                printed_bytes: 0,
            });
        }
        let missing = found.missing().into_iter();
        let missing = missing.map(|name| format!("it needs `{name}`, which was not found"));
        let remarks = found.remarks.iter().map(ToString::to_string);
        let remarks = missing.chain(remarks).collect();
        self.add(path.clone(), remarks, probe(&path, kept));
        seen.push((path, found));
    }

    fn add(&mut self, path: PathBuf, mut remarks: Vec<String>, probed: Probed) {
        let state = match probed.result {
            Ok(Answer::Loaded {
                plugin,
                devices,
                remarks: of_loading,
            }) => {
                remarks.extend(of_loading);
                let state = plugin.state.clone();
                let built_in =
                    |other: &PluginRow| other.path.is_none() && other.name == plugin.name;
                // A host searches no further for what it has built in.
                if !self.report.plugins.iter().any(built_in) {
                    self.report.devices.extend(devices);
                }
                self.report.plugins.push(plugin);
                state
            }
            Ok(Answer::Refused(problem)) | Err(problem) => {
                self.report.refused.push(problem.of_plugin(&path));
                "refused".to_owned()
            }
        };
        self.files.push(FileRow {
            path: path.display().to_string(),
            state,
            duplicate_of: None,
            remarks,
            printed_bytes: probed.printed,
        });
    }
}

/// What the files' owners should know, for people.
fn remarks(files: &[FileRow]) -> Text {
    let mut out = Text::new();
    for file in files {
        let copy = file.duplicate_of.as_ref();
        let copy = copy.map(|first| format!("duplicate of `{first}`"));
        for remark in copy.iter().chain(&file.remarks) {
            out.plain(format!(
                "  `{}`: {}\n",
                one_line(&file.path),
                one_line(remark)
            ));
        }
    }
    if out.is_empty() {
        return out;
    }
    let mut titled = Text::new();
    titled.plain("\n").styled(HEADING, "Remarks").plain("\n");
    titled.append(out);
    titled
}

/// The files to probe: given ones first, whatever they are, then what the search finds.
fn candidates(globals: &Globals) -> Result<Vec<PathBuf>, Failure> {
    if let Some(folder) = &globals.plugin_path {
        let failed = |error: &_| Problem::file("search the folder", folder, error);
        std::fs::read_dir(folder).map_err(|error| failed(&error))?;
    }
    // As every host searches: libraries that are not named as plugins are of no interest.
    let folders: Vec<PathBuf> = globals.plugin_path.iter().cloned().collect();
    let search = plugin_files::search(&folders, &plugin_files::Environment::of_process());
    for warning in search.warnings {
        log::warn!(target: "crossdock::load", "{warning}");
    }
    let given = globals
        .plugin
        .iter()
        .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let searched = search.candidates.into_iter().map(|found| found.path);
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in given.chain(searched) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn ty(device: &str) -> String {
    device.split(':').next().unwrap_or_default().to_owned()
}
