//! Where the sdk lies: the crate for plugins in Rust, with the headers for those in C in its folder `include`.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::Problem;

/// Names the folder, for those who keep it elsewhere.
const VARIABLE: &str = "CROSSDOCK_SDK";

/// The folder that is named, or the one that goes with this command.
///
/// # Errors
/// Which folders were looked at.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf, Problem> {
    let variable = env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let named = named
        .map(Path::to_owned)
        .or_else(|| variable.map(PathBuf::from));
    if let Some(folder) = named {
        return checked(&folder).ok_or_else(|| {
            Problem::new(
                "find the sdk for a plugin",
                format!("`{}` has no `include/crossdock/plugin.h`", folder.display()),
                "name the folder `sdk` of a checkout, or `share/crossdock/sdk` of an installation",
            )
        });
    }
    let places = places();
    places
        .iter()
        .find_map(|folder| checked(folder))
        .ok_or_else(|| {
            let shown: Vec<_> = places
                .iter()
                .map(|place| format!("`{}`", place.display()))
                .collect();
            Problem::new(
                "find the sdk for a plugin",
                format!("it is in none of {}", shown.join(", ")),
                format!("name its folder: `--sdk FOLDER`, or the variable {VARIABLE}"),
            )
        })
}

/// Where this command's sdk is: in the Python package, in an installation, in a checkout.
fn places() -> Vec<PathBuf> {
    let command = env::current_exe().and_then(|command| command.canonicalize());
    let Ok(command) = command else {
        return Vec::new();
    };
    let mut places = Vec::new();
    for folder in command.ancestors().skip(1).take(2) {
        places.push(folder.join("share/crossdock/sdk"));
    }
    let folders = command.ancestors().skip(1);
    places.extend(folders.map(|folder| folder.join("sdk")));
    places
}

/// The folder with its whole path, if it is the sdk's.
fn checked(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let is_sdk = folder.join("include/crossdock/plugin.h").is_file();
    is_sdk.then_some(folder)
}
