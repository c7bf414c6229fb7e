//! `crossdock doctor`: every plugin probed in a process of its own, and what to do about each problem.

use std::path::PathBuf;

use clap::Args;
use crossdock::{Runtime, loader};
use serde::Serialize;

use super::{
    probe::{Probed, probe},
    probe_child::Answer,
};
use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::Globals,
    report::{BROKEN, Report},
    screen, session,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
}

/// The report, and how each file went.
#[derive(Debug, Serialize)]
struct Diagnosis {
    #[serde(flatten)]
    report: Report,
    files: Vec<FileRow>,
}

#[derive(Debug, Serialize)]
struct FileRow {
    path: PathBuf,
    /// `ready`, `absent`, `broken`, or `refused` for all that never answered.
    state: String,
    /// What it printed, which is never shown whole.
    printed_bytes: u64,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    // Only what is built in is opened here; no file is loaded into this process.
    let built_in = Runtime::builder().search(false).open()?;
    let mut diagnosis = Diagnosis {
        report: Report::of(&built_in),
        files: Vec::new(),
    };
    for path in candidates(globals)? {
        let probed = probe(&path);
        diagnosis.add(path, probed);
    }
    let report = &mut diagnosis.report;
    report.list_absent();
    let broken = report
        .plugins
        .iter()
        .filter(|plugin| plugin.state == BROKEN);
    let mut problems: Vec<Problem> = broken
        .map(|plugin| {
            let at = plugin
                .path
                .as_ref()
                .map(|path| format!(" `{}`", path.display()));
            let what = format!("use plugin `{}`{}", plugin.name, at.unwrap_or_default());
            Problem::new(
                what,
                &plugin.detail,
                "repair or reinstall the driver that it names",
            )
        })
        .collect();
    // The errors on stderr say it once; the text on stdout does not repeat them.
    problems.append(&mut report.refused.clone());
    if arguments.json {
        screen::json(&diagnosis)?;
    } else {
        let shown = std::mem::take(&mut report.refused);
        screen::result(&report.text())?;
        report.refused = shown;
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
    fn add(&mut self, path: PathBuf, probed: Probed) {
        let state = match probed.result {
            Ok(Answer::Loaded { plugin, devices }) => {
                let state = plugin.state.clone();
                self.report.plugins.push(plugin);
                self.report.devices.extend(devices);
                state
            }
            Ok(Answer::Refused(problem)) | Err(problem) => {
                self.report.refused.push(naming(problem, &path));
                "refused".to_owned()
            }
        };
        self.files.push(FileRow {
            path,
            state,
            printed_bytes: probed.printed,
        });
    }
}

/// The files to probe: given ones first, whatever they are, then what the search finds.
fn candidates(globals: &Globals) -> Result<Vec<PathBuf>, Failure> {
    let mut given = globals.plugin.clone();
    if let Some(folder) = &globals.plugin_path {
        let failed = |error: &_| Problem::file("search the folder", folder, error);
        let entries = std::fs::read_dir(folder).map_err(|error| failed(&error))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|end| end == "so"))
            .collect();
        found.sort();
        given.extend(found);
    }
    let search = loader::search(&[], &loader::Environment::of_process());
    for warning in search.warnings {
        log::warn!(target: "crossdock::load", "{warning}");
    }
    let given = given
        .into_iter()
        .map(|path| std::path::absolute(&path).unwrap_or(path));
    let searched = search.candidates.into_iter().map(|found| found.path);
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in given.chain(searched) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The same problem, with the file in its first line.
fn naming(mut problem: Problem, path: &std::path::Path) -> Problem {
    let path = path.display().to_string();
    if !problem.what.contains(&path) {
        problem.what = format!("{} (plugin file `{path}`)", problem.what);
    }
    problem
}

fn ty(device: &str) -> String {
    device.split(':').next().unwrap_or_default().to_owned()
}
