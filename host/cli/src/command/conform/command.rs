//! `crossdock conform`: a plugin against the contract.

use std::path::{Path, PathBuf};

use clap::Args;
use crossdock::{Device, Error, PluginState, Runtime};
use crossdock_conformance::{Level, Report, Subject, run_each};

use crate::command::{
    conform::known_failures::KnownFailures, conform::process, conform::shown::Shown,
};
use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::Globals,
    outputs::Outputs,
    screen, session,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plugin's file, or `builtin`.
    #[arg(value_name = "PLUGIN")]
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
    /// Write JUnit XML into this file; with several devices, into one file for each (`F.1`, ..).
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

/// What was checked.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) reports: Vec<Report>,
    /// The types of the devices.
    pub(super) types: Vec<String>,
}

impl Arguments {
    /// What the command does, for errors.
    pub(super) fn what(&self) -> String {
        format!("check plugin `{}`", self.plugin.display())
    }
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let read = [Some(&arguments.plugin), arguments.known_failures.as_ref()];
    let mut outputs = Outputs::beside(read.into_iter().flatten().map(PathBuf::as_path));
    if let Some(path) = &arguments.junit {
        outputs.claim(path)?;
        // Minutes of cases are not spent for a report that cannot be written.
        drop(outputs.begin(path)?);
    }
    let known = arguments.known_failures.as_deref().map(KnownFailures::read);
    let known = known.transpose()?.unwrap_or_default();
    screen::talk(
        globals.quiet,
        &arguments.what().replacen("check", "checking", 1),
    );
    let mut shown = Shown::new(!arguments.json, arguments.verbose);
    let Ran { reports, types } = if arguments.in_process {
        in_process(arguments, &mut shown)?
    } else {
        process::run(arguments, globals.quiet, &mut shown)?
    };
    shown.finish(&reports)?;
    if reports.is_empty() {
        let hint = "run `crossdock doctor` for its state";
        return Err(Problem::new(arguments.what(), "it has no device here", hint).into());
    }
    if let Some(path) = &arguments.junit {
        write_junit(path, &reports, &mut outputs)?;
    }
    if arguments.json {
        screen::json(&reports)?;
    }
    let nothing = reports.iter().all(|report| report.cases.is_empty());
    if nothing {
        let what = format!(
            "find the case `{}`",
            arguments.case.as_deref().unwrap_or_default()
        );
        let hint = "leave `--case` out to see the names of all";
        return Err(Problem::new(what, "no name in this level has this text", hint).into());
    }
    known.check_up_to_date(&reports)?;
    session::require(globals, &types)?;
    Ok(Exit::broken_if(!known.excuses(&reports)))
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
    let runtime = open(&arguments.plugin)?;
    let (level, case) = (arguments.level.into(), arguments.case.as_deref());
    let (mut reports, mut types) = (Vec::new(), Vec::new());
    if let Some((plugin, detail)) = absent(&runtime, &arguments.plugin)? {
        reports.push(Report::absent(plugin, level, detail));
    }
    for device in own_devices(&runtime, &arguments.plugin) {
        let subject = Subject::new(device.plugin().hooks(), device.index())?;
        types.push(device.id().ty.to_string());
        let (at, mut outcome) = (reports.len(), Ok(()));
        reports.push(run_each(&subject, level, case, |report| {
            if outcome.is_ok() {
                outcome = shown.show(at, report);
            }
        }));
        outcome?;
    }
    Ok(Ran { reports, types })
}

fn write_junit(path: &Path, reports: &[Report], outputs: &mut Outputs) -> Result<(), Failure> {
    for (index, report) in reports.iter().enumerate() {
        let mut name = path.as_os_str().to_owned();
        if index > 0 {
            name.push(format!(".{index}"));
        }
        outputs.write(Path::new(&name), &report.junit())?;
    }
    Ok(())
}

const BUILT_IN: &str = "builtin";
