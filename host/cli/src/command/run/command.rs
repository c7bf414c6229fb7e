//! `crossdock run`: Python inside the host, with Python's own command line.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use crossdock_embed::{Choice, Options, missing_requirements, script_of, search};
use crossdock_sdk::shown::shell_word;

use crate::command::run::runtime::{self, Shared};
use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    globals::Globals,
    screen,
};

/// Behind `run`, all from the first word that is no long option of ours goes to Python unchanged.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Run this one: an executable, an environment's folder, or a name on PATH.
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
    /// Print which Python would run, and why no other one, and stop.
    #[arg(long)]
    explain: bool,
    /// What `python` would be given: SCRIPT, -m MODULE or -c CODE, with its options and arguments.
    #[arg(
        value_name = "PYTHON-ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let options = Options {
        python: arguments.python.clone(),
        in_cli: true,
        package: None,
    };
    let search = search(&options);
    if arguments.explain {
        screen::result(format!("{search}\n"))?;
        return Ok(Exit::broken_if(search.choice.is_none()));
    }
    for refused in search.passed_over() {
        screen::talk(globals.quiet, &format!("not {refused}"));
    }
    let choice = search.into_choice()?;
    requirements(&choice, &arguments.arguments)?;
    if choice.libpython.is_none() {
        return Err(instead(&choice, arguments, globals).into());
    }
    let shared = Shared::beside_this_program();
    // Kept until Python is over: the script's runtime is this one.
    let _opened = runtime::open(shared, globals)?;
    let python = shared.open_python(choice, &options)?;
    Ok(exit::of_program(python.main(&arguments.arguments)?))
}

/// A Python without a shared library cannot run in here: its own executable does the same, with a
/// runtime of its own. Returns only where that cannot be started.
fn instead(choice: &Choice, arguments: &Arguments, globals: &Globals) -> Problem {
    if !globals.plugin.is_empty() || globals.plugin_path.is_some() || !globals.require.is_empty() {
        return Problem::new(
            format!(
                "open plugins for a script of `{}`",
                choice.executable.display()
            ),
            "this Python has no shared library, so the script has a runtime of its own",
            "name another Python, or set `CROSSDOCK_PLUGIN_PATH` for the script",
        );
    }
    log::info!(
        "`{}` has no shared library: it runs as a process",
        choice.executable.display()
    );
    let failed = Command::new(&choice.executable)
        .args(&arguments.arguments)
        .exec();
    Problem::file("start", &choice.executable, &failed)
}

/// A script that says what it needs runs only where that is installed.
fn requirements(choice: &Choice, arguments: &[OsString]) -> Result<(), Problem> {
    let Some(script) = script_of(arguments) else {
        return Ok(());
    };
    let missing = missing_requirements(choice, script);
    let what = format!("run `{}`", script.display());
    if let Some(versions) = missing.python {
        return Err(Problem::new(
            what,
            format!(
                "it needs Python {versions}, and `{}` is {}",
                choice.executable.display(),
                choice.number()
            ),
            "name another one: --python",
        ));
    }
    if missing.packages.is_empty() {
        return Ok(());
    }
    let packages = &missing.packages;
    let named = |(wanted, found): &(String, Option<String>)| match found {
        Some(found) => format!("{wanted} ({found} is installed)"),
        None => wanted.clone(),
    };
    let named: Vec<String> = packages.iter().map(named).collect();
    let quoted = packages
        .iter()
        .map(|(wanted, _)| shell_word(wanted.as_ref()));
    let quoted: Vec<String> = quoted.collect();
    Err(Problem::new(
        what,
        format!("`{}` lacks {}", choice.prefix.display(), named.join(", ")),
        format!(
            "{} -m pip install {}",
            shell_word(&choice.executable),
            quoted.join(" ")
        ),
    ))
}
