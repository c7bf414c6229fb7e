//! The child of `matrix`: moves the tensors pair by pair and tells the parent of each, so that it knows
//! which one a crash or a hang was in.

use std::{fs::File, path::PathBuf};

use clap::Args;
use crossdock::Device;
use crossdock_sdk::shown::shell_word;
use serde::{Deserialize, Serialize};

use crate::command::{
    matrix::run::{Begun, Pair, Payload, TensorRow, payloads, run_pair},
    route::RouteArgument,
};
use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    followed::{take_stdout, tell},
    globals::Globals,
    report::DeviceRow,
    session,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    files: Vec<PathBuf>,
    #[arg(long, value_delimiter = ',')]
    route: Vec<RouteArgument>,
    /// Leave out as many pairs: an earlier child ran them.
    #[arg(long)]
    skip: usize,
}

/// What the parent is told, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    /// What is moved, and between which devices.
    Here {
        devices: Vec<DeviceRow>,
        /// Of each device, the word by which `conform` knows its plugin.
        plugins: Vec<String>,
        tensors: Vec<TensorRow>,
    },
    /// A pair begins.
    Begin(Begun),
    /// It has ended.
    End(Pair),
    /// No pair can be run.
    Refused(Problem),
    /// All pairs are over, and the plugins are being closed.
    Closing,
    /// The final word: no pair is left, and the plugins are closed.
    Done,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let mut parent = take_stdout()?;
    match run_pairs(arguments, globals, &mut parent) {
        Err(Failure::Problem(problem)) => tell(&mut parent, &Told::Refused(problem))?,
        done => {
            done?;
            tell(&mut parent, &Told::Done)?;
        }
    }
    Ok(exit::DONE)
}

fn run_pairs(arguments: &Arguments, globals: &Globals, parent: &mut File) -> Result<(), Failure> {
    let runtime = session::open_for_work(globals)?;
    let payloads = payloads(&runtime, &arguments.files)?;
    let devices = runtime.devices();
    let told = Told::Here {
        devices: devices.iter().map(DeviceRow::of).collect(),
        plugins: devices.iter().map(plugin).collect(),
        tensors: payloads.iter().map(Payload::row).collect(),
    };
    tell(parent, &told)?;
    let pairs = || {
        let from = devices.iter();
        from.flat_map(|from| devices.iter().map(move |to| (from, to)))
    };
    let routes = arguments.route.iter();
    let tries = routes.flat_map(|route| pairs().map(|(from, to)| (from, to, *route)));
    for (from, to, route) in tries.skip(arguments.skip) {
        tell(parent, &Told::Begin(Begun::new(from, to, route)))?;
        let pair = run_pair(from, to, &payloads, route);
        tell(parent, &Told::End(pair))?;
    }
    tell(parent, &Told::Closing)?;
    Ok(())
}

fn plugin(device: &Device) -> String {
    let path = device.plugin().path();
    path.map_or_else(|| "builtin".to_owned(), shell_word)
}
