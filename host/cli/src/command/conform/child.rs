//! The child of `conform`: runs the cases and tells the parent of each, so that it knows which one a
//! crash or a hang was in.

use std::{fs::File, path::PathBuf, time::Instant};

use clap::Args;
use crossdock_conformance::{Level, Outcome, Report, Subject, selected};
use serde::{Deserialize, Serialize};

use crate::command::{
    conform::command::{LevelArgument, absent, open_named, own_devices},
    conform::ending,
    conform::left::left_behind,
};
use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    followed::{take_stdout, tell},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    plugin: PathBuf,
    #[arg(long)]
    level: LevelArgument,
    #[arg(long)]
    case: Option<String>,
    /// Leave out as many cases, of all devices together: an earlier child ran them.
    #[arg(long)]
    skip: usize,
}

/// What the parent is told, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    /// The cases that come are about this device.
    Device {
        plugin: String,
        device: u32,
        device_name: String,
        /// The device's type.
        ty: String,
    },
    /// There is no device, and that is no failure.
    Absent { plugin: String, detail: String },
    /// A case begins.
    Begin(String),
    /// It has ended.
    End { outcome: Outcome, seconds: f64 },
    /// No case can be run.
    Refused(Problem),
    /// All cases are over, and the plugin is being closed.
    Closing,
    /// The plugin was closed, and these processes of it run on.
    Left(Vec<String>),
    /// The final word: no case is left, and the plugin is closed.
    Done,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut parent = take_stdout()?;
    match run_cases(arguments, &mut parent) {
        Err(Failure::Problem(problem)) => tell(&mut parent, &Told::Refused(problem))?,
        done => {
            done?;
            let left = left_behind();
            if !left.is_empty() {
                tell(&mut parent, &Told::Left(left))?;
            }
            tell(&mut parent, &Told::Done)?;
        }
    }
    Ok(exit::DONE)
}

fn run_cases(arguments: &Arguments, parent: &mut File) -> Result<(), Failure> {
    let runtime = open_named(&arguments.plugin)?;
    let level = Level::from(arguments.level);
    let mut left_out = arguments.skip;
    if let Some((plugin, detail)) = absent(&runtime, &arguments.plugin)? {
        tell(parent, &Told::Absent { plugin, detail })?;
    }
    for device in own_devices(&runtime, &arguments.plugin) {
        let ty = device.id().ty.to_string();
        let subject = Subject::new(device.plugin().hooks(), device.index())?;
        let Report {
            plugin,
            device,
            device_name,
            ..
        } = Report::of(&subject, level);
        tell(
            parent,
            &Told::Device {
                plugin,
                device,
                device_name,
                ty,
            },
        )?;
        for case in selected(level, arguments.case.as_deref()) {
            if left_out > 0 {
                left_out -= 1;
                continue;
            }
            tell(parent, &Told::Begin(case.name.to_owned()))?;
            let start = Instant::now();
            let outcome = match case.ending {
                None => case.run(&subject),
                Some(_) => ending::outcome(&arguments.plugin, device, case.name)?,
            };
            let seconds = start.elapsed().as_secs_f64();
            tell(parent, &Told::End { outcome, seconds })?;
        }
    }
    tell(parent, &Told::Closing)?;
    Ok(())
}
