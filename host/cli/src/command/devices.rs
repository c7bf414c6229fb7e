//! `crossdock devices`: what is here, what is absent, and why.

use clap::Args;

use crate::{
    exit::{self, Exit},
    failure::Failure,
    globals::Globals,
    report::Report,
    screen, session,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let runtime = session::open(globals)?;
    let mut report = Report::of(&runtime);
    report.list_absent();
    if arguments.json {
        screen::json(&report)?;
    } else {
        screen::result(report.text())?;
    }
    session::require(globals, &session::types(&runtime))?;
    Ok(exit::DONE)
}
