//! What was run, with what went wrong around the cases as failures of its own: without them a file of CI would be
//! green where the command is not.

use std::{path::Path, time::Duration};

use crossdock_conformance::{Level, Report};

use crate::failure::{Problem, one_line};

/// What was checked.
#[derive(Debug, Clone)]
pub(super) struct Ran {
    plugin: String,
    level: Level,
    pub(super) reports: Vec<Report>,
    /// The types of the devices.
    pub(super) types: Vec<String>,
    /// Why it is broken, whatever its cases say.
    pub(super) problem: Option<Problem>,
}

/// The name of something that is judged, and what it must do.
pub(super) type Words = (&'static str, &'static str);

/// What is no case of the suite.
#[derive(Debug, Clone, Copy)]
pub(super) enum Around {
    Opens,
    StaysBetweenCases,
    Closes,
    EndsProcesses,
    RequiredIsHere,
    CaseIsNamed,
    ListIsUpToDate,
}

impl Ran {
    /// Of a plugin's file, before its first case.
    pub(super) fn new(plugin: &Path, level: Level) -> Self {
        Self {
            plugin: name(plugin),
            level,
            reports: Vec::new(),
            types: Vec::new(),
            problem: None,
        }
    }

    /// Makes a problem a failure of the last report, or of one that is made for it. The first one is told.
    pub(super) fn fail(&mut self, around: Around, problem: Problem, time: Duration) {
        let why = format!("{}: {}", problem.what, problem.why);
        self.reports = self.with(around.words(), &why, time);
        self.problem.get_or_insert(problem);
    }

    /// The reports with one more failure.
    pub(super) fn with(&self, words: Words, why: &str, time: Duration) -> Vec<Report> {
        let mut reports = self.reports.clone();
        if reports.is_empty() {
            let (plugin, device) = (self.plugin.clone(), "no device was opened".to_owned());
            reports.push(Report::new(plugin, 0, device, self.level));
        }
        if let Some(report) = reports.last_mut() {
            report.fail(words.0, words.1, one_line(why), time);
        }
        reports
    }
}

impl Around {
    /// Its name, and what it asks for.
    pub(super) const fn words(self) -> Words {
        match self {
            Self::Opens => (
                "the_plugin_opens",
                "A plugin opens, and has a device or says that it is absent.",
            ),
            Self::StaysBetweenCases => (
                "the_process_goes_on_between_two_cases",
                "A plugin ends no process, whatever its threads do.",
            ),
            Self::Closes => (
                "the_plugin_closes",
                "A plugin is retired and closed behind its cases, and the process goes on.",
            ),
            Self::EndsProcesses => (
                "the_plugin_ends_its_processes",
                "A plugin may own threads and processes. … `close` ends them",
            ),
            Self::RequiredIsHere => (
                "a_device_of_each_required_type_is_here",
                "The option `--require` names the types.",
            ),
            Self::CaseIsNamed => (
                "a_case_has_the_name_that_is_asked_for",
                "The option `--case` names it.",
            ),
            Self::ListIsUpToDate => (
                "each_known_failure_fails",
                "A case that passes and is listed would hide its next failure.",
            ),
        }
    }
}

/// What the plugin is called by its file, until it says so itself.
fn name(plugin: &Path) -> String {
    let name = plugin.file_stem().unwrap_or(plugin.as_os_str());
    let name = name.to_string_lossy();
    let name = name.strip_prefix("libcrossdock_plugin_").unwrap_or(&name);
    name.to_owned()
}
