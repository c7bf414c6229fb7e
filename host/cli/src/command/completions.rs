//! `crossdock completions`: what a shell needs to complete the command line.

use clap::{Args, CommandFactory as _};

use crate::{
    args::Cli,
    exit::{self, Exit},
    failure::Failure,
    screen,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: clap_complete::Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    // Into memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "crossdock",
        &mut script,
    );
    screen::program(&String::from_utf8_lossy(&script))?;
    Ok(exit::DONE)
}
