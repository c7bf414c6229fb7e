//! `crossdock new-plugin`: its options, and what it prints.

use std::path::{Path, PathBuf};

use clap::Args;
use crossdock_sdk::shown::shell_word;

use super::{project::Project, sdk};
use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    screen,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plugin's name, and the folder's: letters a to z, digits and `_`, at most 64.
    name: String,
    /// In C; else it is in Rust.
    #[arg(long)]
    c: bool,
    /// The folder of the sdk. Else `CROSSDOCK_SDK`, or the one that goes with this command.
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
    /// The folder in which the project's folder is made.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    into: PathBuf,
}

/// Plugins that there are, whose files it would be taken for.
const TAKEN: [&str; 5] = ["builtin", "cpu", "cuda", "opencl", "rocm"];

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    check_name(&arguments.name)?;
    let sdk = sdk::find(arguments.sdk.as_deref())?;
    let sdk = sdk.to_str().filter(|sdk| is_text(sdk)).ok_or_else(|| {
        Problem::new(
            format!(
                "write the path of the sdk `{}` into a project",
                sdk.display()
            ),
            "it is not UTF-8, or contains a control character",
            "move the sdk to another path, and name it: `--sdk FOLDER`",
        )
    })?;
    let command = std::env::current_exe().ok();
    let command = command.as_deref().and_then(Path::to_str);
    let project = Project {
        name: &arguments.name,
        sdk,
        command: command.filter(|path| is_text(path)).unwrap_or("crossdock"),
        is_c: arguments.c,
    };
    let folder = project.write(&arguments.into)?;
    let mut told = format!("{}\n", folder.display());
    for path in project.paths() {
        told.push_str(&format!("  {path}\n"));
    }
    let next = if arguments.c {
        "make check"
    } else {
        "cargo test"
    };
    told.push_str(&format!("next: cd {} && {next}\n", shell_word(&folder)));
    screen::result(told)?;
    Ok(exit::DONE)
}

/// Whether a build file can hold this path.
fn is_text(path: &str) -> bool {
    !path.contains(char::is_control)
}

/// A name that is one for the contract, a file, a crate and an identifier of C at once.
fn check_name(name: &str) -> Result<(), Problem> {
    let refused = |why: &str| {
        Err(Problem::new(
            format!("name a plugin `{name}`"),
            why,
            "take another name, as in `my_dev`",
        ))
    };
    let is_letter = |letter: char| letter.is_ascii_lowercase();
    let is_sign = |letter: char| is_letter(letter) || letter.is_ascii_digit() || letter == '_';
    if !name.starts_with(is_letter) || !name.chars().all(is_sign) || name.len() > 64 {
        return refused(
            "a name has letters a to z, digits and `_`, begins with a letter, and has at most 64",
        );
    }
    if TAKEN.contains(&name) {
        return refused("there is a plugin of this name");
    }
    Ok(())
}
