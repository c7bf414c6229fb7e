//! `crossdock conform`: a plugin against the contract.

use std::path::{Path, PathBuf};

use clap::Args;
use crossdock::{Device, Runtime};
use crossdock_conformance::{Level, Report, Subject};

use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::Globals,
    screen,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plugin's file, or `builtin`.
    #[arg(value_name = "PLUGIN")]
    plugin: PathBuf,
    /// How much of the suite to run.
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    level: LevelArgument,
    /// Run the cases with this text in their name only.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Write JUnit XML into this file; with several devices, into one file for each (`F.1`, ..).
    #[arg(long, value_name = "F")]
    junit: Option<PathBuf>,
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
}

/// A level as it is asked for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LevelArgument {
    /// What every plugin must do.
    Core,
    /// And all that it says it can do.
    Full,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let runtime = open(&arguments.plugin)?;
    let built_in = arguments.plugin == Path::new(BUILT_IN);
    let devices = runtime.devices();
    let own = devices
        .iter()
        .filter(|device| device.plugin().path().is_none() == built_in);
    let reports: Result<Vec<Report>, Failure> = own
        .map(|device| check(device, arguments, globals))
        .collect();
    let reports = reports?;
    if reports.is_empty() {
        let what = format!("check plugin `{}`", arguments.plugin.display());
        let hint = "run `crossdock doctor` for its state";
        return Err(Problem::new(what, "it has no device here", hint).into());
    }
    if let Some(path) = &arguments.junit {
        write_junit(path, &reports)?;
    }
    if arguments.json {
        screen::json(&reports)?;
    } else {
        for report in &reports {
            screen::result(&format!("{}\n", report.to_string().trim_end()))?;
        }
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
    Ok(Exit::broken_if(!reports.iter().all(Report::passed)))
}

fn open(plugin: &Path) -> Result<Runtime, Failure> {
    let builder = Runtime::builder().search(false);
    let builder = if plugin == Path::new(BUILT_IN) {
        builder
    } else {
        builder.plugin(plugin)
    };
    Ok(builder.open()?)
}

fn check(device: &Device, arguments: &Arguments, globals: &Globals) -> Result<Report, Failure> {
    screen::talk(
        globals.quiet,
        &format!("checking {} ({})", device.id(), device.name()),
    );
    let level = match arguments.level {
        LevelArgument::Core => Level::Core,
        LevelArgument::Full => Level::Full,
    };
    let subject = Subject::new(device.plugin().hooks(), device.index())?;
    Ok(crossdock_conformance::run(
        &subject,
        level,
        arguments.case.as_deref(),
    ))
}

fn write_junit(path: &Path, reports: &[Report]) -> Result<(), Failure> {
    for (index, report) in reports.iter().enumerate() {
        let mut name = path.as_os_str().to_owned();
        if index > 0 {
            name.push(format!(".{index}"));
        }
        let path = PathBuf::from(name);
        std::fs::write(&path, report.junit())
            .map_err(|error| Problem::file("write", &path, &error))?;
    }
    Ok(())
}

const BUILT_IN: &str = "builtin";
