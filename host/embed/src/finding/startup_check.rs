//! Whether Python starts in this environment at all: a failure would end the process that starts it.

use std::process::{Command, Stdio};

use crate::failure::{Failure, Kind};
use crate::finding::choice::Choice;

/// What Python says where it cannot start.
const FATAL: &str = "Fatal Python error: ";

/// Starts the executable once where a variable may keep a Python that works by itself from starting.
pub(crate) fn starts(choice: &Choice) -> Result<(), Failure> {
    let steering = steering();
    if steering.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(&choice.executable);
    command.args(["-c", ""]).stdin(Stdio::null());
    let what = format!("start Python as `{}`", choice.executable.display());
    let hint = format!("unset {}, or set it for this Python", steering.join(" or "));
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let why = cause(&String::from_utf8_lossy(&output.stderr));
            Err(Failure::new(Kind::NoPython, what).because(why, hint))
        }
        Err(error) => Err(Failure::new(Kind::NoPython, what).because(error.to_string(), hint)),
    }
}

/// The variables that Python reads at its start.
fn steering() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("PYTHON")).collect();
    names.sort();
    names
}

fn cause(said: &str) -> String {
    let fatal = said.lines().find_map(|line| line.strip_prefix(FATAL));
    let last = || said.lines().rfind(|line| !line.trim().is_empty());
    fatal.or_else(last).unwrap_or("it ends at once").to_owned()
}
