//! The child of `doctor`: loads one plugin file and writes what it found into a file.
//!
//! A file and not stdout, because stdout belongs to whatever the plugin prints.

use std::path::{Path, PathBuf};

use clap::Args;
use crossdock::Runtime;
use rustix::process::{Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};

use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    report::{DeviceRow, PluginRow},
    screen,
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
    // Both are kindness to the machine; the probe is as good without them.
    let no_core = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, no_core).ok();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let opened = Runtime::builder()
        .search(false)
        .plugin(&arguments.plugin)
        .open();
    let answer = match &opened {
        Ok(runtime) => answer(runtime, arguments),
        Err(error) => Answer::Refused(error.clone().into()),
    };
    let text = screen::json_text(&answer)?;
    let answered = &arguments.answer;
    std::fs::write(answered, text).map_err(|error| Problem::file("write", answered, &error))?;
    drop(opened);
    let closed = closed(answered);
    std::fs::rename(answered, &closed).map_err(|error| Problem::file("write", &closed, &error))?;
    Ok(exit::DONE)
}

/// The name of the answer once the plugin was closed as well, which is the child's final word: a plugin
/// can exit without a failure by itself.
pub(super) fn closed(answer: &Path) -> PathBuf {
    answer.with_extension("closed")
}

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
