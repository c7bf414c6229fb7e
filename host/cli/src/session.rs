//! Opening the runtime as the global flags say.

use crossdock::Runtime;
use crossdock_sdk::dlpack::{Device, DlpackError};

use crate::{
    failure::{Failure, Problem},
    globals::Globals,
    screen,
};

/// Opens the runtime; files that the search refused are talk.
pub(crate) fn open(globals: &Globals) -> Result<Runtime, Failure> {
    let mut builder = Runtime::builder();
    for path in &globals.plugin {
        builder = builder.plugin(path);
    }
    if let Some(folder) = &globals.plugin_path {
        builder = builder.plugin_dir(folder);
    }
    let opened = builder.open().map_err(Problem::from);
    Ok(opened.map_err(|problem| match &globals.plugin[..] {
        [only] => problem.of_plugin(only),
        _ => problem,
    })?)
}

/// Opens the runtime for work on devices: what is refused is told, what is required must be there.
pub(crate) fn open_for_work(globals: &Globals) -> Result<Runtime, Failure> {
    let runtime = open(globals)?;
    for refused in runtime.refused() {
        let problem = Problem::from(refused);
        screen::talk(globals.quiet, &format!("skipped: {problem}"));
    }
    require(globals, &types(&runtime))?;
    Ok(runtime)
}

/// The names of the device types that are here.
pub(crate) fn types(runtime: &Runtime) -> Vec<String> {
    runtime
        .devices()
        .iter()
        .map(|device| device.id().ty.to_string())
        .collect()
}

/// Checks `--require` against the device types that are here.
pub(crate) fn require(globals: &Globals, here: &[String]) -> Result<(), Failure> {
    let hint = "run `crossdock devices` to see what was looked for and where";
    missing(globals, here, hint).map_or(Ok(()), |problem| Err(problem.into()))
}

/// The types of `--require` that are not here, with what to do about it.
pub(crate) fn missing(globals: &Globals, here: &[String], hint: &str) -> Option<Problem> {
    let wanted = globals.require.iter().map(ToString::to_string);
    let missing: Vec<String> = wanted.filter(|ty| !here.contains(ty)).collect();
    if missing.is_empty() {
        return None;
    }
    let list = missing.join(", ");
    let why = format!("no device of type {list} is here; it was asked for by `--require`");
    Some(Problem::new(
        format!("find a device of type {list}"),
        why,
        hint,
    ))
}

/// A device by its name, for the parser of the command line, which runs before anything is opened.
pub(crate) fn device_named(text: &str) -> Result<Device, NoDevice> {
    text.parse().map_err(|error| match error {
        DlpackError::DeviceTypeText { text } => NoDevice::Type(text),
        error => NoDevice::Text(error),
    })
}

/// A text that names no device.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDevice {
    #[error("no device type {0:?}: `crossdock devices` lists those that are here")]
    Type(String),
    #[error(transparent)]
    Text(DlpackError),
}
