//! `crossdock inspect`: what a plugin file says of itself, while none of its code runs.

use std::path::PathBuf;

use clap::Args;
use crossdock::plugin_files::{self, AbiVersion, Environment, Flavour, Preflight};
use crossdock_sdk::abi::{ABI_MAJOR, ABI_MINOR};
use serde::Serialize;

use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem, one_line},
    screen::{self, BAD, HEADING},
    text::Text,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plugin's file; it is read and not loaded.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
}

/// What the file's bytes tell.
#[derive(Debug, Serialize)]
struct Inspection {
    /// Absolute and without links.
    path: String,
    name: String,
    version: String,
    vendor: String,
    /// `rust` or `c`: which language its table is offered in.
    language: &'static str,
    abi: String,
    /// The device types that it serves.
    devices: Vec<String>,
    /// The soname of what it starts, if anything.
    driver: Option<String>,
    needed: Vec<Needed>,
    remarks: Vec<String>,
}

/// A library that the dynamic linker loads with it.
#[derive(Debug, Serialize)]
struct Needed {
    name: String,
    /// As far as the linker's folders and its cache tell.
    found: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let seen = plugin_files::preflight(&arguments.file, &Environment::of_process());
    let seen = seen.map_err(Problem::from)?;
    let inspection = Inspection::of(&seen);
    if arguments.json {
        screen::json(&inspection)?;
    } else {
        screen::result(inspection.text())?;
    }
    // Told first: whoever asks what a file is wants to know it of one for another host as well.
    let host = AbiVersion {
        major: ABI_MAJOR,
        minor: ABI_MINOR,
    };
    seen.check_version(host).map_err(Problem::from)?;
    Ok(exit::DONE)
}

impl Inspection {
    fn of(seen: &Preflight) -> Self {
        let missing = seen.missing();
        let needed = seen.needed.iter().map(|name| Needed {
            name: name.clone(),
            found: !missing.contains(name),
        });
        let said = &seen.description;
        Self {
            path: seen.path.display().to_string(),
            name: said.name.clone(),
            version: said.version.clone(),
            vendor: said.vendor.clone(),
            language: match seen.flavour {
                Flavour::Rust => "rust",
                Flavour::C => "c",
                _ => "unknown",
            },
            abi: said.abi.to_string(),
            devices: said.devices.clone(),
            driver: said.driver.clone(),
            needed: needed.collect(),
            remarks: seen.remarks.iter().map(ToString::to_string).collect(),
        }
    }

    fn text(&self) -> Text {
        let mut out = Text::new();
        out.styled(
            HEADING,
            format!("{} {}", self.name, self.version).trim_end(),
        )
        .plain("\n");
        let offered = match self.language {
            "rust" => "a root module (Rust)",
            "c" => "a function (C)",
            other => other,
        };
        let rows = [
            ("file", self.path.clone()),
            ("vendor", self.vendor.clone()),
            ("ABI", self.abi.clone()),
            ("offers", offered.to_owned()),
            ("devices", self.devices.join(", ")),
            ("driver", self.driver.clone().unwrap_or_default()),
        ];
        for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            out.plain(format!("  {name:8} {}\n", one_line(value)));
        }
        for (index, needed) in self.needed.iter().enumerate() {
            let heading = if index == 0 { "needs" } else { "" };
            out.plain(format!("  {heading:8} {}", one_line(&needed.name)));
            if !needed.found {
                out.plain(" ").styled(BAD, "(not found)");
            }
            out.plain("\n");
        }
        for remark in &self.remarks {
            out.plain(format!("  {:8} {}\n", "remark", one_line(remark)));
        }
        out
    }
}
