//! Which words after `run` are ours, and which are Python's.
//!
//! Python's options are letters that mean other things to other subcommands, so behind `run` only
//! our long options count. The first word that is none of them, and all after it, go to Python. The
//! parser's own `trailing_var_arg` would take `-q` as the option of all subcommands, where
//! `docs/command.md` promises it to Python.

use std::ffi::OsString;

use clap::CommandFactory as _;

use crate::args::Cli;

/// The words of a command line, with `--` where Python's begin.
pub(crate) fn marked(words: Vec<OsString>) -> Vec<OsString> {
    let cli = Cli::command();
    let Some(run) = cli.find_subcommand("run") else {
        return words;
    };
    let Some(at) = own(&cli, &words, 1) else {
        return words;
    };
    if words.get(at).is_none_or(|word| word != "run") {
        return words;
    }
    let own_of_run = |name: &str| takes_value(&cli, name).or_else(|| takes_value(run, name));
    match end_of_options(&words, at + 1, own_of_run, false) {
        Some(end) if words.get(end).is_some_and(|word| word != "--") => {
            let mut marked = words;
            marked.insert(end, OsString::from("--"));
            marked
        }
        _ => words,
    }
}

/// Where the subcommand stands.
fn own(cli: &clap::Command, words: &[OsString], from: usize) -> Option<usize> {
    end_of_options(words, from, |name| takes_value(cli, name), true)
}

/// Where the options end that `known` knows; `None` where a value is missing or help is asked for.
fn end_of_options(
    words: &[OsString],
    from: usize,
    known: impl Fn(&str) -> Option<bool>,
    short: bool,
) -> Option<usize> {
    let mut at = from;
    while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
        if word == "--help" || word == "-h" {
            return None;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (&*word, false),
        };
        if short && is_switch(name) {
            at += 1;
            continue;
        }
        match name.strip_prefix("--").and_then(&known) {
            Some(takes_value) => at += if takes_value && !value { 2 } else { 1 },
            None => return Some(at),
        }
    }
    None
}

/// A letter of our own before the subcommand.
fn is_switch(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

/// Whether the command has a long option of this name, and whether a value follows it.
fn takes_value(command: &clap::Command, name: &str) -> Option<bool> {
    let mut options = command.get_arguments();
    let found = options.find(|option| option.get_long().is_some_and(|long| long == name))?;
    Some(found.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let marked = marked(words);
        let marked: Vec<_> = marked.iter().map(|word| word.to_string_lossy()).collect();
        marked.join(" ")
    }

    #[test]
    fn the_first_word_that_is_not_ours_and_all_after_it_are_pythons() {
        for (given, expected) in [
            ("crossdock run", "crossdock run"),
            ("crossdock run -q", "crossdock run -- -q"),
            (
                "crossdock run x.py --plugin y",
                "crossdock run -- x.py --plugin y",
            ),
            (
                "crossdock run --python p -m q -h",
                "crossdock run --python p -- -m q -h",
            ),
            (
                "crossdock run --plugin=p --version",
                "crossdock run --plugin=p -- --version",
            ),
            ("crossdock run --quiet - a", "crossdock run --quiet -- - a"),
            ("crossdock run -- -h", "crossdock run -- -h"),
            (
                "crossdock -q --plugin a run -V",
                "crossdock -q --plugin a run -- -V",
            ),
            ("crossdock run -h", "crossdock run -h"),
            ("crossdock devices run -q", "crossdock devices run -q"),
            (
                "crossdock --plugin run devices -q",
                "crossdock --plugin run devices -q",
            ),
        ] {
            assert_eq!(split(given), expected, "{given}");
        }
    }
}
