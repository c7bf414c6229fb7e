//! The child of `doctor`: loads one plugin file and writes what it found into a file.
//!
//! A file and not stdout, because stdout belongs to whatever the plugin prints.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use crossdock::Runtime;
use crossdock_sdk::regular;
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
    let written = regular::fits(text.len() as u64).and_then(|()| fs::write(answered, text));
    let written = written.inspect_err(|error| report_failure(answered, error));
    written.map_err(|error| Problem::file("write", answered, &error))?;
    drop(opened);
    let closed = closed(answered);
    let renamed = fs::rename(answered, &closed);
    renamed.map_err(|error| Problem::file("write", &closed, &error))?;
    Ok(exit::DONE)
}

/// The name of a file that the parent makes, whose number is 0 until the child itself fails by that error of
/// the system: a new name needs no room, where the disk may be full.
pub(super) fn failed(answer: &Path, code: i32) -> PathBuf {
    answer.with_extension(format!("failed-{code}"))
}

fn report_failure(answer: &Path, error: &io::Error) {
    let code = error.raw_os_error().unwrap_or(libc::EFBIG);
    fs::rename(failed(answer, 0), failed(answer, code)).ok();
}

/// What the child itself failed by, if it did.
pub(super) fn own_failure(answer: &Path) -> Option<io::Error> {
    let entries = fs::read_dir(answer.parent()?).ok()?;
    let code = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let (_, code) = name.to_str()?.split_once(".failed-")?;
        code.parse().ok()
    });
    let mut code = code.filter(|code| *code != 0);
    code.next().map(io::Error::from_raw_os_error)
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
