//! The flags that every subcommand takes.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _, ValueParser};
use crossdock_sdk::{dlpack::DeviceType, shown::shell_word};

/// What every subcommand takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// Load this plugin file as well (repeatable).
    #[arg(long, global = true, value_name = "PATH", value_parser = plain_path())]
    pub(crate) plugin: Vec<PathBuf>,
    /// Search this folder for plugins as well.
    #[arg(long, global = true, value_name = "DIR", value_parser = plain_path())]
    pub(crate) plugin_path: Option<PathBuf>,
    /// End with exit code 1 where a device of one of these types is absent.
    #[arg(long, global = true, value_name = "TYPE", value_delimiter = ',')]
    pub(crate) require: Vec<DeviceType>,
    /// Say nothing on stderr but errors.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// When to use colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: clap::ColorChoice,
}

impl Globals {
    /// A command for a hint, which meets the same plugins as this one.
    pub(crate) fn with_plugins(&self, command: &str) -> String {
        let mut out = command.to_owned();
        for file in &self.plugin {
            out.push_str(&format!(" --plugin {}", shell_word(file)));
        }
        if let Some(folder) = &self.plugin_path {
            out.push_str(&format!(" --plugin-path {}", shell_word(folder)));
        }
        out
    }
}

/// Takes a path, and writes one that looks like an option so that it is none in another command line, which
/// a child process gets or a hint shows: `-x.so` is `./-x.so`.
pub(crate) fn plain_path() -> ValueParser {
    let plain = |path: PathBuf| match path.as_os_str().as_encoded_bytes() {
        [b'-', ..] => Path::new(".").join(path),
        _ => path,
    };
    PathBufValueParser::new().map(plain).into()
}
