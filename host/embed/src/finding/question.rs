//! Queries a Python interpreter by running a program in it.
//!
//! Markers enclose the answer, because a startup file of the environment may print. A complete answer counts even
//! without an exit status, which is lost if the host reaps all children.

use std::io;
use std::process::Command;
use std::time::Duration;

use crossdock_sdk::child;

const BEGIN: &[u8] = b"\0crossdock:";
const END: &[u8] = b"\0:crossdock\n";

/// Long enough for a cold start over a network, short enough for a caller that waits.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// More than an answer with all that start files print before it.
const LONGEST: u64 = 256 << 10;

/// All that a command writes, with an answer in it or without.
pub(crate) fn ask(mut command: Command) -> io::Result<Vec<u8>> {
    // It prints too much, and keeps no Python from starting.
    command.env_remove("PYTHONVERBOSE");
    child::output(command, LONGEST, LIMIT)
}

/// What stands between the marks.
pub(crate) fn answer(said: &[u8]) -> Option<&[u8]> {
    let begin = find(said, BEGIN)? + BEGIN.len();
    let rest = said.get(begin..)?;
    rest.get(..find(rest, END)?)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

/// What a program without an answer said first, which is mostly why; an exception's name comes last.
pub(crate) fn reason(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = match lines.next() {
        Some(line) if line.starts_with("Traceback") => lines.next_back(),
        line => line,
    };
    line.unwrap_or_default().chars().take(200).collect()
}
