//! The setting `CROSSDOCK_COSTS`: whether costs are measured, and where they are kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::plugin_files::Environment;

/// Whether the costs of copies are measured, and where they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostCache {
    /// Nothing is measured: routes are chosen by the devices' properties.
    Off,
    /// Measured in each process anew.
    Memory,
    /// Kept in this file, which is replaced as a whole and ignored where it cannot be read.
    File(PathBuf),
}

impl CostCache {
    /// What the environment says: `CROSSDOCK_COSTS=FILE|memory|off`, else a file of the user's cache
    /// folder. A privileged process believes no environment and writes no file.
    pub(crate) fn of_process(environment: &Environment) -> Self {
        if environment.privileged {
            return Self::Memory;
        }
        Self::of(|name| std::env::var_os(name))
    }

    /// What a text says: `off`, `memory`, or a file (`./off` for one of such a name).
    #[must_use]
    pub fn named(text: &str) -> Self {
        match text {
            "off" => Self::Off,
            "memory" => Self::Memory,
            file => Self::File(PathBuf::from(file)),
        }
    }

    pub(super) fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(value) = set("CROSSDOCK_COSTS") {
            let file = || Self::File(PathBuf::from(&value));
            return value.to_str().map_or_else(file, Self::named);
        }
        // The specification of these folders says that a relative one is to be ignored.
        let folder = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
        let cache = set("XDG_CACHE_HOME").and_then(folder).or_else(|| {
            let home = set("HOME").and_then(folder)?;
            Some(home.join(".cache"))
        });
        cache.map_or(Self::Memory, |cache| {
            Self::File(cache.join("crossdock").join("costs.json"))
        })
    }

    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file),
            Self::Off | Self::Memory => None,
        }
    }
}
