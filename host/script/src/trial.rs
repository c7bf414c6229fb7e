//! Whether Python starts in this environment at all: a failure would end the process that starts it.

use std::process::{Command, Stdio};

use crate::choice::Choice;
use crate::failure::{Failure, Kind};

/// What makes a Python that works by itself fail at its start.
const STEERING: [&str; 2] = ["PYTHONHOME", "PYTHONPATH"];

/// Starts the executable once where the environment says where Python's own modules lie.
pub(crate) fn starts(choice: &Choice) -> Result<(), Failure> {
    if STEERING.iter().all(|name| std::env::var_os(name).is_none()) {
        return Ok(());
    }
    let mut command = Command::new(&choice.executable);
    command.args(["-c", ""]).stdin(Stdio::null());
    let what = format!("start Python as `{}`", choice.executable.display());
    let hint = format!(
        "unset {}, or set them for this Python",
        STEERING.join(" and ")
    );
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            let why = last.unwrap_or("it ends at once").to_owned();
            Err(Failure::new(Kind::NoPython, what).because(why, hint))
        }
        Err(error) => Err(Failure::new(Kind::NoPython, what).because(error.to_string(), hint)),
    }
}
