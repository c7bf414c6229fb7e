//! The Python that was chosen: the interpreter of an environment and the library that goes with it.

use std::path::PathBuf;

/// A Python, as its own executable described it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The interpreter of the environment (`sys.executable`): what selects the environment.
    pub executable: PathBuf,
    /// The shared library that is opened. The command alone also chooses a Python without one, and
    /// starts its executable.
    pub libpython: Option<PathBuf>,
    /// Major and minor version.
    pub version: (u8, u8),
    /// `sys.version`, for messages.
    pub version_text: String,
    /// `sys.prefix`: the environment's folder.
    pub prefix: PathBuf,
    /// `sys.base_prefix`: the installation behind the environment.
    pub base_prefix: PathBuf,
    /// `sys.abiflags`: `t` is free-threaded, `d` a debug build.
    pub abi_flags: String,
    /// Which rule of the search chose it, for messages: "`VIRTUAL_ENV` is set".
    pub why: String,
}

impl Choice {
    /// The version without what follows it: `3.11.7`.
    #[must_use]
    pub fn number(&self) -> &str {
        number(&self.version_text)
    }
}

/// Major and minor version of `3.11.7`.
pub(crate) fn version(number: &str) -> Option<(u8, u8)> {
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The first word of `sys.version` and of `Py_GetVersion`.
pub(crate) fn number(version_text: &str) -> &str {
    version_text.split_whitespace().next().unwrap_or_default()
}
