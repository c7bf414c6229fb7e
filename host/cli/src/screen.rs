//! What is written where: results on stdout, talk on stderr. Words for people pass through [`Text`].

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use crossdock_sdk::shown::steers;

use crate::{
    failure::{Failure, Problem},
    followed::take_stdout,
    text::Text,
};

/// Bold, for headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// For what is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For what is absent or slower than it could be.
pub(crate) const DIM: Style = AnsiColor::Yellow.on_default();
/// For what is wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Where results go, if plugins run in this process.
static RESULTS: OnceLock<Mutex<File>> = OnceLock::new();

/// From now on results alone go to stdout, and what plugins print there goes to stderr.
pub(crate) fn keep_stdout() -> Result<(), Problem> {
    let stdout = take_stdout()?;
    RESULTS.get_or_init(|| Mutex::new(stdout));
    Ok(())
}

/// Writes a result for people.
pub(crate) fn result(text: impl Into<Text>) -> Result<(), Failure> {
    program(&text.into().render())
}

/// Writes a result for a program, as it is.
pub(crate) fn program(text: &str) -> Result<(), Failure> {
    let written = match RESULTS.get() {
        Some(results) => {
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            write(AutoStream::auto(&mut *results), text)
        }
        None => write(anstream::stdout().lock(), text),
    };
    match written {
        // Nobody reads it any more. The files and the exit code are still asked for.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.map_err(|error| Problem::output(&error))?),
    }
}

fn write(mut to: impl io::Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes()).and_then(|()| to.flush())
}

/// Writes a result as JSON, on lines of its own.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    program(&json_text(value)?)
}

/// The JSON text of a value, with a newline at its end. It may be read on a terminal too, so what JSON
/// lets stand in a text is written out where it steers one.
pub(crate) fn json_text<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Problem::output(&error.into()))?;
    let mut out = String::with_capacity(text.len() + 1);
    for letter in text.chars() {
        if letter != '\n' && steers(letter) {
            out.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            out.push(letter);
        }
    }
    out.push('\n');
    Ok(out)
}

/// Tells a person something that is no result.
pub(crate) fn talk(quiet: bool, text: &str) {
    if !quiet {
        say(&Text::from(format!("{text}\n")));
    }
}

/// Tells what is wrong, in three lines.
pub(crate) fn problem(problem: &Problem) {
    failed(&format!(" {problem}\n"));
}

/// Tells what is behind `error:`.
pub(crate) fn failed(text: &str) {
    say(Text::new().styled(BAD, "error:").plain(text));
}

fn say(text: &Text) {
    // With a closed stderr there is nobody left to tell.
    drop(
        anstream::stderr()
            .lock()
            .write_all(text.render().as_bytes()),
    );
}

/// Bytes for people, in binary units.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = "KiB";
    for next in UNITS.into_iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// Seconds for people.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 1e-3 => format!("{:.1} us", v * 1e6),
        v if v < 1.0 => format!("{:.2} ms", v * 1e3),
        v => format!("{v:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_nothing_that_steers_and_means_the_same() {
        let value = "a\n\u{1b}\u{7f}\u{9b}\u{202e}ü";
        let text = json_text(&value).unwrap();
        assert!(!text.trim_end().contains(steers), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }

    #[test]
    fn sizes_and_times_keep_their_unit_readable() {
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (256 << 20, "256.0 MiB"),
        ];
        for (count, text) in sizes {
            assert_eq!(bytes(count), text);
        }
        for (value, text) in [(2e-6, "2.0 us"), (0.25, "250.00 ms"), (3.0, "3.00 s")] {
            assert_eq!(seconds(value), text);
        }
    }
}
