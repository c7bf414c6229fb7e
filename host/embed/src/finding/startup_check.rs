//! Whether Python starts in this environment at all: a failure would end the process that starts it.

use std::process::Command;

use crate::failure::{Failure, Kind};
use crate::finding::choice::Choice;
use crate::finding::question;

/// What Python says where it cannot start.
const FATAL: &str = "Fatal Python error: ";

/// Says that it came so far.
const QUESTION: &str = r"import sys; sys.stdout.buffer.write(b'\0crossdock:\0:crossdock\n')";

/// Starts the executable once: a variable, or a start file of the environment or the user, may keep a Python that
/// works by itself from starting.
pub(crate) fn starts(choice: &Choice) -> Result<(), Failure> {
    let mut command = Command::new(&choice.executable);
    command.args(["-c", QUESTION]);
    let why = match question::ask(command) {
        Ok(said) if question::answer(&said).is_some() => return Ok(()),
        Ok(said) => cause(&String::from_utf8_lossy(&said)),
        Err(error) => error.to_string(),
    };
    let executable = choice.executable.display();
    let steering = steering();
    let hint = match steering.as_slice() {
        [] => format!(
            "fix what `{executable} -c pass` reports: a start file of the environment or the user"
        ),
        names => format!("unset {}, or set it for this Python", names.join(" or ")),
    };
    let what = format!("start Python as `{executable}`");
    Err(Failure::new(Kind::NoPython, what).because(why, hint))
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
