//! The `crossdock` command: a thin shell over the runtime.

mod args;
mod command;
mod exit;
mod failure;
mod files;
mod globals;
mod log_lines;
mod progress;
mod report;
mod screen;
mod session;
mod table;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Cli, failure::Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(words::marked(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(asked) => return usage(&asked).into(),
    };
    let color = match cli.globals.color {
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
    };
    color.write_global();
    log_lines::begin(cli.globals.quiet);
    let exit = match cli.command.run(&cli.globals) {
        Ok(exit) => exit,
        Err(Failure::Closed) => exit::DONE,
        Err(Failure::Problem(problem)) => {
            screen::problem(&problem);
            exit::BROKEN
        }
    };
    exit.into()
}

/// Help and version are results; all else on this way is a wrong command line.
fn usage(asked: &clap::Error) -> exit::Exit {
    let exit = if asked.use_stderr() {
        exit::USAGE
    } else {
        exit::DONE
    };
    // A closed pipe is the reader's choice, here as everywhere.
    drop(asked.print());
    exit
}
