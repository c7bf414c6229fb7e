//! The child of `doctor`: loads one plugin file and writes what it found into a file.
//!
//! A file and not stdout, because stdout belongs to whatever the plugin prints. The file is in the parent's
//! memory, and is not open here while the plugin's code runs.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf};

use clap::Args;
use crossdock::Runtime;
use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};

use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    report::{DeviceRow, PluginRow},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    plugin: PathBuf,
    answer: PathBuf,
}

/// What the child found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It was loaded and probed.
    Loaded {
        plugin: PluginRow,
        devices: Vec<DeviceRow>,
        /// What loading it changed in the process.
        remarks: Vec<String>,
    },
    /// It was refused.
    Refused(Problem),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    // Kindness to the machine; the probe is as good without it.
    let no_core = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, no_core).ok();
    let opened = Runtime::builder()
        .search(false)
        .plugin(&arguments.plugin)
        .open();
    let answer = match &opened {
        Ok(runtime) => answer(runtime, arguments),
        Err(error) => Answer::Refused(error.clone().into()),
    };
    let answer = serde_json::to_string(&answer).map_err(|error| Problem::output(&error.into()))?;
    arguments.write(&answer)?;
    drop(opened);
    arguments.write(CLOSED)?;
    Ok(exit::DONE)
}

impl Arguments {
    /// Adds a line to the file.
    fn write(&self, line: &str) -> Result<(), Problem> {
        let opened = OpenOptions::new().append(true).open(&self.answer);
        let written = opened.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|error| Problem::file("write", &self.answer, &error))
    }
}

/// The line behind the answer once the plugin was closed as well, which is the child's final word: a plugin
/// can exit without a failure by itself.
pub(super) const CLOSED: &str = "closed";

fn answer(runtime: &Runtime, arguments: &Arguments) -> Answer {
    let plugins = runtime.plugins();
    let Some(plugin) = plugins.iter().find(|plugin| plugin.path().is_some()) else {
        let first = runtime.refused().into_iter().next().map(Problem::from);
        return Answer::Refused(first.unwrap_or_else(|| {
            let what = format!("load plugin `{}`", arguments.plugin.display());
            Problem::new(
                what,
                "nothing was registered",
                "set CROSSDOCK_LOG=debug to see more",
            )
        }));
    };
    let devices = runtime.devices();
    let own = devices
        .iter()
        .filter(|device| device.plugin().path().is_some());
    // First, because a hook may panic by it.
    let devices = own.map(DeviceRow::of).collect();
    Answer::Loaded {
        plugin: PluginRow::of(plugin),
        devices,
        remarks: plugin.remarks().map(ToString::to_string).collect(),
    }
}
