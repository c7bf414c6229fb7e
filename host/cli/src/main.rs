//! The `crossdock` command: a thin shell over the runtime.

mod args;
mod command;
mod exit;
mod failure;
mod files;
mod followed;
mod globals;
mod log_lines;
mod outputs;
mod progress;
mod report;
mod screen;
mod session;
mod signals;
mod table;
mod temporary;
mod text;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Cli, exit::Exit, failure::Failure};

fn main() -> ExitCode {
    signals::report_large_files();
    let exit = match run() {
        Ok(exit) => exit,
        Err(Failure::Problem(problem)) => {
            screen::problem(&problem);
            exit::BROKEN
        }
        Err(Failure::Usage(problem)) => {
            screen::problem(&problem);
            exit::USAGE
        }
    };
    exit.into()
}

fn run() -> Result<Exit, Failure> {
    let cli = match Cli::try_parse_from(words::marked(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(asked) => return usage(&asked),
    };
    let color = match cli.globals.color {
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
    };
    color.write_global();
    log_lines::begin(cli.globals.quiet);
    let done = cli.command.run(&cli.globals);
    done.map_err(|failure| failure.with_plugins(&cli.globals))
}

/// Help and version are results; all else on this way is a wrong command line, whose words are anybody's.
fn usage(asked: &clap::Error) -> Result<Exit, Failure> {
    let text = asked.render();
    if asked.use_stderr() {
        let text = text.to_string();
        screen::failed(text.strip_prefix("error:").unwrap_or(&text));
        return Ok(exit::USAGE);
    }
    screen::program(&text.ansi().to_string())?;
    Ok(exit::DONE)
}
