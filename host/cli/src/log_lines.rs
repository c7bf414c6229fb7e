//! The command's log: warnings, and what `CROSSDOCK_LOG` asks for besides.

use std::io::Write as _;

use crossdock_sdk::shown::escaped;
use env_logger::Builder;
use log::LevelFilter;

use crate::{failure::one_line, screen};

const VARIABLE: &str = "CROSSDOCK_LOG";

/// Begins the log on stderr. `quiet` leaves out warnings that nobody asked for.
pub(crate) fn begin(quiet: bool) {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    for word in misspelled(&asked) {
        let levels: Vec<_> = LevelFilter::iter()
            .map(|level| level.as_str().to_lowercase())
            .collect();
        let told = format!(
            "warning: `{word}` in `{VARIABLE}` is no level; there are {}",
            levels.join(", ")
        );
        screen::talk(quiet, &told);
    }
    let unasked = if quiet {
        LevelFilter::Error
    } else {
        LevelFilter::Warn
    };
    let mut log = Builder::new();
    log.filter_level(unasked).parse_filters(&asked);
    // What a plugin logs is neither several lines nor a command for the terminal.
    log.format(|out, line| {
        let (level, target) = (line.level(), one_line(line.target()));
        let text = one_line(&line.args().to_string());
        writeln!(out, "[{level:<5} {}] {}", escaped(&target), escaped(&text))
    });
    // `init` panics where a logger is there already, which a plugin could have brought.
    if let Err(taken) = log.try_init() {
        screen::talk(quiet, &format!("no log: {taken}"));
    }
}

/// The words of a filter that were meant as levels: what names the log of a module is the library's
/// own name, or a path.
fn misspelled(filter: &str) -> impl Iterator<Item = &str> {
    let words = filter.split('/').next().unwrap_or_default().split(',');
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    words.filter(|word| {
        let module = word.contains(['=', ':']) || word.starts_with("crossdock");
        !module && word.parse::<LevelFilter>().is_err()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_neither_a_level_nor_a_module_is_misspelled() {
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("DEBUG", &[]),
            ("debgu", &["debgu"]),
            ("off,crossdock::route=debug,crossdock", &[]),
            ("warn, infos,fast::open", &["infos"]),
            ("info/cop", &[]),
        ];
        for (filter, found) in cases {
            assert_eq!(misspelled(filter).collect::<Vec<_>>(), found, "{filter}");
        }
    }
}
