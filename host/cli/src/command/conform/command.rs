//! `crossdock conform`: a plugin against the contract.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use crossdock::{Device, Error, PluginState, Runtime};
use crossdock_conformance::{Level, Report, Subject, run_each, selected};
use crossdock_sdk::{child, shown::shell_word};

use crate::command::{
    conform::junit::Junit,
    conform::known_failures::KnownFailures,
    conform::left,
    conform::process,
    conform::ran::{Around, Ran},
    conform::shown::Shown,
};
use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::{Globals, plain_path},
    outputs::Outputs,
    screen, session,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plugin's file, or `builtin`.
    #[arg(value_name = "PLUGIN", value_parser = plain_path())]
    pub(super) plugin: PathBuf,
    /// How much of the suite to run.
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    pub(super) level: LevelArgument,
    /// Run the cases with this text in their name only.
    #[arg(long, value_name = "NAME")]
    pub(super) case: Option<String>,
    /// Run the cases in this process, for a debugger: a crash then ends the command.
    #[arg(long)]
    in_process: bool,
    /// Cases that may fail, a name on each line with `#` before a remark. One that passes is an error.
    #[arg(long, value_name = "F")]
    known_failures: Option<PathBuf>,
    /// End a case that takes longer [default: 60]; the cases after it run in a new process.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) limit: Option<u64>,
    /// Write JUnit XML into this file, or to stdout for `-`, with a suite for each device.
    #[arg(long, value_name = "F")]
    junit: Option<PathBuf>,
    /// List the cases that were skipped too, each with why.
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
}

/// A level as it is asked for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum LevelArgument {
    /// What every plugin must do.
    Core,
    /// And all that it says it can do.
    Full,
}

impl LevelArgument {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
        }
    }
}

impl From<LevelArgument> for Level {
    fn from(level: LevelArgument) -> Self {
        match level {
            LevelArgument::Core => Self::Core,
            LevelArgument::Full => Self::Full,
        }
    }
}

impl Arguments {
    /// What the command does, for errors.
    pub(super) fn what(&self) -> String {
        format!("check plugin `{}`", self.plugin.display())
    }
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let read = [Some(&arguments.plugin), arguments.known_failures.as_ref()];
    let outputs = Outputs::beside(read.into_iter().flatten().map(PathBuf::as_path));
    let junit = Junit::claim(arguments.junit.as_deref(), outputs)?;
    Outputs::stdout_of([((), arguments.json), ((), junit.is_on_stdout())])?;
    let known = arguments.known_failures.as_deref().map(KnownFailures::read);
    let known = known.transpose()?.unwrap_or_default();
    screen::talk(
        globals.quiet,
        &arguments.what().replacen("check", "checking", 1),
    );
    let rows = !arguments.json && !junit.is_on_stdout();
    let mut shown = Shown::new(rows, arguments.verbose, junit);
    let mut ran = if arguments.in_process {
        in_process(arguments, &mut shown)?
    } else {
        process::run(arguments, globals.quiet, &mut shown)?
    };
    if ran.problem.is_none() {
        judge(arguments, globals, &known, &mut ran);
    }
    shown.finish(&ran.reports)?;
    shown.junit.finish(&ran.reports)?;
    if arguments.json {
        screen::json(&ran.reports)?;
    }
    match ran.problem {
        Some(problem) => Err(problem.into()),
        None => Ok(Exit::broken_if(!known.excuses(&ran.reports))),
    }
}

/// What is asked for beside the cases.
fn judge(arguments: &Arguments, globals: &Globals, known: &KnownFailures, ran: &mut Ran) {
    let found = if ran.reports.is_empty() {
        let hint = format!("run `{}` for its state", doctor(&arguments.plugin));
        let problem = Problem::new(arguments.what(), "it has no device here", hint);
        Some((Around::Opens, problem))
    } else if ran.reports.iter().all(|report| report.cases.is_empty()) {
        let case = arguments.case.as_deref().unwrap_or_default();
        let hint = "run `crossdock conform builtin -v`, which shows the names of all";
        let why = "no name in this level has this text";
        let problem = Problem::new(format!("find the case `{case}`"), why, hint);
        Some((Around::CaseIsNamed, problem))
    } else if let Some(problem) = known.out_of_date(&ran.reports) {
        Some((Around::ListIsUpToDate, problem))
    } else {
        let hint = format!(
            "run `{}` to see what it looked for",
            doctor(&arguments.plugin)
        );
        let problem = session::missing(globals, &ran.types, &hint);
        problem.map(|problem| (Around::RequiredIsHere, problem))
    };
    if let Some((around, problem)) = found {
        ran.fail(around, problem, Duration::ZERO);
    }
}

/// The command that tells the state of a plugin.
fn doctor(plugin: &Path) -> String {
    if plugin == Path::new(BUILT_IN) {
        return "crossdock doctor".to_owned();
    }
    format!("crossdock doctor --plugin {}", shell_word(plugin))
}

pub(super) fn open(plugin: &Path) -> Result<Runtime, Error> {
    let builder = Runtime::builder().search(false);
    let builder = if plugin == Path::new(BUILT_IN) {
        builder
    } else {
        builder.plugin(plugin)
    };
    builder.open()
}

/// The same, with an error that names the file.
pub(super) fn open_named(plugin: &Path) -> Result<Runtime, Failure> {
    let opened = open(plugin).map_err(Problem::from);
    let whole = format!("`{}`", doctor(plugin));
    Ok(opened.map_err(|problem| Problem {
        hint: problem.hint.replace("`crossdock doctor`", &whole),
        ..problem.of_plugin(plugin)
    })?)
}

/// The devices of the plugin that is checked.
pub(super) fn own_devices(runtime: &Runtime, plugin: &Path) -> Vec<Device> {
    let built_in = plugin == Path::new(BUILT_IN);
    let mut devices = runtime.devices();
    devices.retain(|device| device.plugin().path().is_none() == built_in);
    devices
}

/// The plugin's name and what it looked for, where its devices are absent.
pub(super) fn absent(
    runtime: &Runtime,
    plugin: &Path,
) -> Result<Option<(String, String)>, Failure> {
    if plugin == Path::new(BUILT_IN) {
        return Ok(None);
    }
    let plugins = runtime.plugins();
    let Some(found) = plugins.iter().find(|plugin| plugin.path().is_some()) else {
        return Ok(None);
    };
    match found.state() {
        PluginState::Absent { detail } => Ok(Some((found.name().to_owned(), detail.clone()))),
        PluginState::Broken { why } => {
            let what = format!("check plugin `{}`", plugin.display());
            let hint = "repair or reinstall the driver that it names";
            Err(Problem::new(what, why, hint).into())
        }
        _ => Ok(None),
    }
}

fn in_process(arguments: &Arguments, shown: &mut Shown) -> Result<Ran, Failure> {
    let mut ran = Ran::new(&arguments.plugin, arguments.level.into());
    shown.junit.write_begun(&ran, Around::Opens.words())?;
    match run_cases(arguments, shown, &mut ran) {
        Err(Failure::Problem(problem)) => ran.fail(Around::Opens, problem, Duration::ZERO),
        done => {
            done?;
            left::judge(&mut ran, arguments, &left::left_behind());
            child::kill_all();
        }
    }
    Ok(ran)
}

fn run_cases(arguments: &Arguments, shown: &mut Shown, ran: &mut Ran) -> Result<(), Failure> {
    let runtime = open_named(&arguments.plugin)?;
    let (level, case) = (arguments.level.into(), arguments.case.as_deref());
    if let Some((plugin, detail)) = absent(&runtime, &arguments.plugin)? {
        ran.reports.push(Report::absent(plugin, level, detail));
    }
    for device in own_devices(&runtime, &arguments.plugin) {
        let subject = Subject::new(device.plugin().hooks(), device.index())?;
        ran.types.push(device.id().ty.to_string());
        let (at, mut outcome) = (ran.reports.len(), Ok(()));
        let report = run_each(&subject, level, case, |report| {
            if outcome.is_ok() {
                // In this process a crash ends the command, and the file is all that is left.
                let mut so_far = ran.clone();
                so_far.reports.push(report.clone());
                let next = selected(level, case).nth(report.cases.len());
                let words = next.map_or(Around::Closes.words(), |case| (case.name, case.contract));
                let written = shown.junit.write_begun(&so_far, words);
                outcome = written.and_then(|()| shown.show(at, report));
            }
        });
        ran.reports.push(report);
        outcome?;
    }
    Ok(())
}

const BUILT_IN: &str = "builtin";
